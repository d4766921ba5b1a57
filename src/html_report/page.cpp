#include "html_report/page.h"

#include <array>

#include "core/text.h"
#include "html_report/chart.js.h"
#include "html_report/curves.js.h"
#include "html_report/d3.js.h"
#include "html_report/d3_licences.h"
#include "html_report/flame.js.h"
#include "html_report/marks.js.h"
#include "html_report/matrix.js.h"
#include "html_report/page.js.h"
#include "html_report/style.css.h"
#include "html_report/timeline.js.h"

namespace trainctl::html_report {
namespace {

/// Policy that forbids the page to request any address, whatever its data contains.
constexpr std::string_view kPolicy =
    R"(<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">)";

/// Escapes JSON for a <script> element: "<" occurs only in strings, which allow its escape.
std::string escape_json(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  return text;
}

std::string script(std::string_view text) {
  return "<script>\n" + std::string(text) + "</script>\n";
}

}  // namespace

std::string format_page(const Page& page) {
  const std::string title = core::escape_html(page.title);
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
      std::string(kPolicy) + "\n<title>" + title + "</title>\n<style>\n" + std::string(kHtmlReportStyleCss) +
      "</style></head>\n<body><header><h1>" + title +
      "</h1></header><main><noscript>This page draws its charts with JavaScript, of which it brings all that it "
      "needs.</noscript></main>\n"
      "<footer><details><summary>Charts by D3; licenses</summary><pre>" +
      core::escape_html(kHtmlReportD3Licences) +
      "</pre></details></footer>\n<script id=\"data\" type=\"application/json\">" + escape_json(page.data) +
      "</script>\n";
  for (const std::string_view part :
       std::array{kHtmlReportD3Js, kHtmlReportPageJs, kHtmlReportChartJs, kHtmlReportCurvesJs, kHtmlReportFlameJs,
                  kHtmlReportTimelineJs, kHtmlReportMarksJs, kHtmlReportMatrixJs, page.script})
    html += script(part);
  return html + "</body></html>\n";
}

}  // namespace trainctl::html_report
