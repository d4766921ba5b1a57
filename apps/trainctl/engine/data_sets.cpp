// `trainctl data shard`, `verify` and `stats`: whole sets.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "core/terminal.h"
#include "core/text.h"
#include "data_tools/sharding.h"
#include "engine.h"
#include "runtime/device.h"

namespace trainctl::engine {
namespace {

constexpr std::size_t kMostFaultsShown = 20;
constexpr std::size_t kMostClassesShown = 20;

using Json = nlohmann::ordered_json;

void print_json(const Json& document) {
  std::printf("%s\n", core::indented_json(document).c_str());
}

void print_progress(const std::string& text) {
  core::log().info(text);
}

Json as_json(const data_tools::SetStatistics& set) {
  Json json = {
      {"part", set.part}, {"samples", set.samples}, {"read", set.read}, {"bad", set.bad}, {"mean_bytes", set.bytes}};
  if (set.width[2] > 0) json["turned"] = set.turned;
  if (!set.class_counts.empty()) json["class_counts"] = set.class_counts;
  if (set.width[2] > 0) {
    json["width"] = {{"min", set.width[0]}, {"median", set.width[1]}, {"max", set.width[2]}};
    json["height"] = {{"min", set.height[0]}, {"median", set.height[1]}, {"max", set.height[2]}};
  }
  if (!set.mean.empty()) {
    json["mean"] = set.mean;
    json["std"] = set.std;
  }
  return json;
}

/// Tells of images whose EXIF orientation is not applied.
void print_turned(const char* indent, std::int64_t turned) {
  if (turned > 0)
    core::print(stdout, "%s%s %s stored turned or mirrored (EXIF orientation), and read so; exiftran -ai turns them\n",
                indent, core::format_count(turned).c_str(), turned == 1 ? "image is" : "images are");
}

void print_numbers(const char* name, const std::vector<double>& values) {
  core::print(stdout, "  %-12s", name);
  for (const double value : values) core::print(stdout, " %.4f", value);
  core::print(stdout, "\n");
}

void print_table(const data_tools::SetStatistics& set, const std::vector<std::string>& class_names) {
  core::print(stdout, "%s: %s samples, %s read", set.part.c_str(), core::format_count(set.samples).c_str(),
              core::format_count(set.read).c_str());
  if (set.bad > 0) core::print(stdout, ", %s unreadable", core::format_count(set.bad).c_str());
  core::print(stdout, ", %s each\n", core::format_bytes(set.bytes).c_str());
  if (set.width[2] > 0)
    core::print(stdout, "  size         %s×%s to %s×%s, median %s×%s\n", core::format_count(set.width[0]).c_str(),
                core::format_count(set.height[0]).c_str(), core::format_count(set.width[2]).c_str(),
                core::format_count(set.height[2]).c_str(), core::format_count(set.width[1]).c_str(),
                core::format_count(set.height[1]).c_str());
  print_turned("  ", set.turned);
  if (!set.mean.empty()) print_numbers("mean", set.mean), print_numbers("std", set.std);
  if (!set.class_counts.empty())
    core::print(stdout, "  %s classes%s\n", core::format_count(set.class_counts.size()).c_str(),
                set.counted_in().c_str());
  for (std::size_t i = 0; i < set.class_counts.size() && i < kMostClassesShown; ++i)
    core::print(
        stdout, "    %-16s %8s  %6s\n", i < class_names.size() ? class_names[i].c_str() : std::to_string(i).c_str(),
        core::format_count(set.class_counts[i]).c_str(),
        core::format_percent(
            static_cast<double>(set.class_counts[i]) / static_cast<double>(std::max<std::int64_t>(1, set.read)), 1)
            .c_str());
  if (set.class_counts.size() > kMostClassesShown)
    core::print(stdout, "  and %zu more classes (--json or --html has them)\n",
                set.class_counts.size() - kMostClassesShown);
}

}  // namespace

int run_data_shard(const cli::EngineCall& call) {
  const cli::DataShardOptions& options = call.options<cli::DataShardOptions>();
  const data_tools::ShardReport report = data_tools::shard_dataset(
      call.loaded.experiment.dataset, {.output = options.output,
                                       .shard_bytes = options.shard_mib << 20,
                                       .max_side = options.max_side,
                                       .quality = options.quality,
                                       .threads = runtime::available_cores(),
                                       .seed = static_cast<std::uint64_t>(call.loaded.experiment.seed),
                                       .tell = print_progress});
  const auto shards = static_cast<long long>(report.shards.size());
  if (call.json)
    print_json({{"output", options.output},
                {"shards", shards},
                {"kept", report.kept},
                {"samples", report.samples},
                {"bytes", report.bytes},
                {"seconds", report.seconds}});
  else
    core::print(stdout, "%s: %s shards (%s were there), %s samples, %s in %s\n", options.output.c_str(),
                core::format_count(shards).c_str(), core::format_count(report.kept).c_str(),
                core::format_count(report.samples).c_str(),
                core::format_bytes(static_cast<double>(report.bytes)).c_str(),
                core::format_duration(report.seconds).c_str());
  return core::kExitDone;
}

int run_data_verify(const cli::EngineCall& call) {
  const data_tools::VerifyReport report =
      data_tools::verify_dataset(call.loaded.experiment.dataset, runtime::available_cores());
  if (call.json) {
    Json faults = Json::array();
    for (const data_tools::Fault& fault : report.faults)
      faults.push_back({{"name", fault.name}, {"problem", fault.what}});
    print_json({{"samples", report.samples},
                {"shards", report.shards},
                {"turned", report.turned},
                {"faults", faults},
                {"seconds", report.seconds}});
  } else {
    for (std::size_t i = 0; i < report.faults.size() && i < kMostFaultsShown; ++i)
      core::print(stdout, "%s: %s\n", report.faults[i].name.c_str(), report.faults[i].what.c_str());
    if (report.faults.size() > kMostFaultsShown)
      core::print(stdout, "and %zu more (--json lists them)\n", report.faults.size() - kMostFaultsShown);
    print_turned("", report.turned);
    core::print(
        stdout, "%s samples read, %s shards compared in %s: %s\n", core::format_count(report.samples).c_str(),
        core::format_count(report.shards).c_str(), core::format_duration(report.seconds).c_str(),
        report.faults.empty()
            ? "all well"
            : (std::to_string(report.faults.size()) + (report.faults.size() == 1 ? " fault" : " faults")).c_str());
  }
  return report.faults.empty() ? core::kExitDone : core::kExitFailed;
}

int run_data_stat(const cli::EngineCall& call) {
  data_tools::StatRequest request{.max_samples = call.options<cli::DataStatsOptions>().max_samples,
                                  .threads = runtime::available_cores(),
                                  .tell = print_progress};
  if (!call.options<cli::DataStatsOptions>().html.empty()) request.html = call.options<cli::DataStatsOptions>().html;
  const data_tools::StatReport report = data_tools::dataset_statistics(call.loaded.experiment.dataset, request);
  if (call.json) {
    Json document = {{"seconds", report.seconds}};
    if (!report.class_names.empty()) document["class_names"] = report.class_names;
    for (const data_tools::SetStatistics& set : report.sets) document["sets"].push_back(as_json(set));
    print_json(document);
    return core::kExitDone;
  }
  for (const data_tools::SetStatistics& set : report.sets) print_table(set, report.class_names);
  if (request.html) core::print(stdout, "%s\n", request.html->c_str());
  return core::kExitDone;
}

}  // namespace trainctl::engine
