#include "profiler/page.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/median.h"
#include "html_report/page.h"
#include "profiler/page.js.h"

namespace trainctl::profiler {
namespace {

using PageJson = nlohmann::json;

constexpr std::size_t kMostBytes = 4 << 20;  // of data; scripts, style and licences take half a megabyte
constexpr auto kReplace = PageJson::error_handler_t::replace;

std::string text_of(const PageJson& document) {
  return document.dump(-1, ' ', false, kReplace);
}

double duration_of(const PageJson& interval) {
  return interval.at(1).get<double>();
}

/// Keeps the longer half of the timeline's intervals; false if none are left.
bool halve_timeline(PageJson& summary) {
  if (!summary.contains("timeline") || !summary["timeline"].is_object()) return false;
  PageJson& timeline = summary["timeline"];
  std::vector<double> durations;
  for (const PageJson& track : timeline["tracks"])
    for (const PageJson& interval : track["intervals"]) durations.push_back(duration_of(interval));
  if (durations.empty()) return false;
  const double shorter_than = core::median(std::move(durations));
  std::size_t num_dropped = 0;
  for (PageJson& track : timeline["tracks"])
    num_dropped += std::erase_if(track["intervals"].get_ref<PageJson::array_t&>(),
                                 [&](const PageJson& interval) { return duration_of(interval) <= shorter_than; });
  PageJson& dropped = timeline["dropped"];
  const std::size_t before = dropped.is_object() ? dropped.value("intervals", std::size_t{0}) : 0;
  dropped = {{"intervals", before + num_dropped}, {"shorter_than_us", shorter_than}};
  return true;
}

std::string title_of(const PageJson& summary) {
  const auto run = summary.find("run");
  const std::string name = run == summary.end() || !run->is_object() ? "" : run->value("name", "");
  return (name.empty() ? "A run" : name) + ": where a step's time and memory go";
}

}  // namespace

std::string format_page(const PageJson& summary) {
  html_report::Page page{.title = title_of(summary), .data = text_of(summary), .script = kProfilerPageJs};
  if (page.data.size() > kMostBytes) {
    PageJson smaller = summary;
    while (page.data.size() > kMostBytes && halve_timeline(smaller)) page.data = text_of(smaller);
  }
  return html_report::format_page(page);
}

}  // namespace trainctl::profiler
