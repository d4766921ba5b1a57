#include "profiler/page.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/median.h"
#include "page/page.h"
#include "profiler/page.js.h"

namespace trainctl {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = 4 << 20;  // of data; scripts, style and licences take half a megabyte
constexpr auto kReplace = json::error_handler_t::replace;

std::string text_of(const json& document) {
  return document.dump(-1, ' ', false, kReplace);
}

double duration_of(const json& interval) {
  return interval.at(1).get<double>();
}

/// Keeps the longer half of the timeline's intervals; false where none are left.
bool halve_timeline(json& summary) {
  if (!summary.contains("timeline") || !summary["timeline"].is_object()) return false;
  json& timeline = summary["timeline"];
  std::vector<double> durations;
  for (const json& track : timeline["tracks"])
    for (const json& interval : track["intervals"]) durations.push_back(duration_of(interval));
  if (durations.empty()) return false;
  const double shorter_than = median(std::move(durations));
  std::size_t num_dropped = 0;
  for (json& track : timeline["tracks"])
    num_dropped += std::erase_if(track["intervals"].get_ref<json::array_t&>(),
                                 [&](const json& interval) { return duration_of(interval) <= shorter_than; });
  json& dropped = timeline["dropped"];
  const std::size_t before = dropped.is_object() ? dropped.value("intervals", std::size_t{0}) : 0;
  dropped = {{"intervals", before + num_dropped}, {"shorter_than_us", shorter_than}};
  return true;
}

std::string title_of(const json& summary) {
  const auto run = summary.find("run");
  const std::string name = run == summary.end() || !run->is_object() ? "" : run->value("name", "");
  return (name.empty() ? "A run" : name) + ": where a step's time and memory go";
}

}  // namespace

std::string format_page(const json& summary) {
  Page page{.title = title_of(summary), .data = text_of(summary), .script = kProfilerPageJs};
  if (page.data.size() > kMostBytes) {
    json smaller = summary;
    while (page.data.size() > kMostBytes && halve_timeline(smaller)) page.data = text_of(smaller);
  }
  return format_page(page);
}

}  // namespace trainctl
