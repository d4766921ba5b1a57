#include "profiler/page.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace trainctl::profiler {
namespace {

using nlohmann::json;

json data_of(const std::string& html) {
  const std::string begin = R"(<script id="data" type="application/json">)";
  const std::size_t from = html.find(begin) + begin.size();
  return json::parse(html.substr(from, html.find("</script>", from) - from));
}

/// `num` intervals of 1, 2, 3, … µs, on two tracks.
json summary_with(int num) {
  json tracks =
      json::array({{{"name", "a"}, {"intervals", json::array()}}, {{"name", "b"}, {"intervals", json::array()}}});
  for (int i = 1; i <= num; ++i)
    tracks[static_cast<std::size_t>(i % 2)]["intervals"].push_back({1.5 * i, static_cast<double>(i), 0, 0, 0});
  return {
      {"run", {{"name", "small <1>"}}},
      {"timeline", {{"tracks", tracks}, {"names", {"x"}}, {"dropped", {{"intervals", 3}, {"shorter_than_us", 0.5}}}}}};
}

TEST_CASE("a report's page holds its summary unchanged", "[profiler]") {
  const json summary = summary_with(1000);
  const std::string html = format_page(summary);
  CHECK(data_of(html) == summary);
  CHECK_THAT(html, Catch::Contains("small &lt;1&gt;: where a step"));
}

TEST_CASE("of a summary too large for a page, the shortest intervals are left out, and counted", "[profiler]") {
  const json summary = summary_with(300'000);
  const std::string html = format_page(summary);
  CHECK(html.size() < 5'000'000);
  const json shown = data_of(html);
  CHECK(shown["run"] == summary["run"]);
  const json& dropped = shown["timeline"]["dropped"];
  std::size_t kept = 0;
  for (const json& track : shown["timeline"]["tracks"]) {
    kept += track["intervals"].size();
    for (const json& interval : track["intervals"])
      if (interval[1] <= dropped["shorter_than_us"]) FAIL("a shorter one was kept");
  }
  CHECK(kept > 50'000);
  CHECK(kept + dropped["intervals"].get<std::size_t>() == 300'003);
}

TEST_CASE("a summary without a timeline has a page too", "[profiler]") {
  CHECK(data_of(format_page(json::object())) == json::object());
  CHECK(data_of(format_page({{"run", nullptr}, {"timeline", nullptr}}))["run"].is_null());
}

}  // namespace
}  // namespace trainctl::profiler
