// A page of charts that needs nothing beside it: style, D3, our scripts and the page's data in one HTML file, which
// opens from disk without a network. Pure text; the reader's browser draws.
#pragma once

#include <string>
#include <string_view>

namespace trainctl::html_report {

struct Page {
  std::string title;
  std::string data;         // JSON; the script finds it as page.data
  std::string_view script;  // JavaScript that fills the page, by src/html_report/*.js
};

std::string format_page(const Page& page);

}  // namespace trainctl::html_report
