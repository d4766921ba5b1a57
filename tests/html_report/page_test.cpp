#include "html_report/page.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace trainctl::html_report {
namespace {

/// What the page's scripts will parse.
nlohmann::json data_of(const std::string& html) {
  const std::string begin = R"(<script id="data" type="application/json">)";
  const std::size_t from = html.find(begin);
  REQUIRE(from != std::string::npos);
  const std::size_t to = html.find("</script>", from);
  return nlohmann::json::parse(html.substr(from + begin.size(), to - from - begin.size()));
}

TEST_CASE("a page's data reads back as it was, whatever is in its strings", "[html_report]") {
  const nlohmann::json data{{"text", "</script><script>alert(1)</script><!-- \" ' & \\ <b> \u2028"},
                            {"numbers", {1, 0.1, -2.5e-300, nullptr}}};
  const std::string html = format_page({.title = "t", .data = data.dump(), .script = ""});
  CHECK(data_of(html) == data);
  CHECK(html.find("alert(1)</script>") == std::string::npos);
}

TEST_CASE("a page's title is text", "[html_report]") {
  const std::string html = format_page({.title = "a <b> & c", .data = "{}", .script = ""});
  CHECK_THAT(html, Catch::Contains("<title>a &lt;b&gt; &amp; c</title>"));
  CHECK(html.find("<b>") == std::string::npos);
}

TEST_CASE("a page needs nothing beside it, and may ask for nothing", "[html_report]") {
  const std::string html = format_page({.title = "t", .data = "{}", .script = "const own = 1;"});
  for (const char* reference : {" src=", "<link", "@import", "url(h"}) {
    INFO(reference);
    CHECK(html.find(reference) == std::string::npos);
  }
  CHECK_THAT(html, Catch::Contains("default-src 'none'") && Catch::Contains("const own = 1;"));
}

TEST_CASE("a page is small, for a phone too, and carries the licences of what it embeds", "[html_report]") {
  const std::string html = format_page({.title = "t", .data = "{}", .script = ""});
  CHECK(html.size() < 500'000);
  CHECK_THAT(html, Catch::Contains("width=device-width") && Catch::Contains("d3js.org v5"));
  for (const char* holder : {"Mike Bostock", "Cynthia Brewer", "Robert Penner", "Raymond Hill"})
    CHECK_THAT(html, Catch::Contains(holder));
  CHECK_THAT(html, Catch::Contains("Redistributions of source code must retain"));
}

}  // namespace
}  // namespace trainctl::html_report
