#include "compare/run_record.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compare/metrics_file.h"
#include "config/flatten.h"
#include "config/parse.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/median.h"
#include "core/text.h"

namespace trainctl::compare {
namespace {

using nlohmann::ordered_json;

constexpr double kAsLong = 1.01;

std::optional<double> number(const ordered_json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

NamedValues named_values(const ordered_json& object, const char* key) {
  NamedValues values;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_object()) return values;
  for (const auto& [name, value] : found->items())
    if (value.is_number() || value.is_null()) values.emplace_back(name, value.is_null() ? NAN : value.get<double>());
  return values;
}

std::string text(const ordered_json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

const Curve* find_curve(const RunRecord& run, std::string_view name) {
  const auto found = std::ranges::find(run.curves, name, &Curve::name);
  return found == run.curves.end() ? nullptr : &*found;
}

/// Returns the median of a curve's finite values.
std::optional<double> median_of(const RunRecord& run, std::string_view name) {
  std::vector<double> values;
  if (const Curve* curve = find_curve(run, name))
    for (const CurvePoint& point : curve->points)
      if (std::isfinite(point.value)) values.push_back(point.value);
  return values.empty() ? std::nullopt : std::optional(core::median(std::move(values)));
}

/// Takes throughput from the records if the summary has none. A run killed after its last step gets its summary from
/// the next start, which timed no step.
void take_pace_of_records(RunRecord& run) {
  if (!run.median_step_ms) run.median_step_ms = median_of(run, "step_ms");
  if (!run.samples_per_s) run.samples_per_s = median_of(run, "samples_per_s");
  if (!run.tokens_per_s) run.tokens_per_s = median_of(run, "tokens_per_s");
}

void take_summary(const ordered_json& summary, RunRecord& run) {
  const std::string outcome = text(summary, "outcome");
  run.state = outcome.empty() ? "unfinished" : outcome;
  if (const std::string error = text(summary, "error"); !error.empty()) run.remarks.push_back("failed: " + error);
  run.steps = static_cast<std::int64_t>(number(summary, "steps").value_or(0));
  run.final_metrics = named_values(summary, "final_metrics");
  run.best_metrics = named_values(summary, "best_metrics");
  if (!run.best_metrics.empty() && number(summary, "best_step"))
    run.best_step = static_cast<std::int64_t>(*number(summary, "best_step"));
  run.median_step_ms = number(summary, "median_step_ms");
  run.samples_per_s = number(summary, "samples_per_s");
  run.tokens_per_s = number(summary, "tokens_per_s");
  take_pace_of_records(run);
  run.data_wait_share = number(summary, "data_wait_share");
  run.peak_memory_mib = number(summary, "peak_memory_mib");
  run.wall_s = number(summary, "wall_s");
  if (const auto count = number(summary, "num_parameters")) run.num_parameters = static_cast<std::int64_t>(*count);
  if (const auto provenance = summary.find("provenance"); provenance != summary.end() && provenance->is_object())
    run.device = text(*provenance, "device");
}

/// Takes the figures of a run without a final summary from its records, which are means over windows of steps.
void take_records(const Metrics& metrics, RunRecord& run) {
  run.state = "unfinished";
  run.steps = metrics.last_step;
  take_pace_of_records(run);
  const auto wait = median_of(run, "data_wait_ms");
  if (wait && run.median_step_ms.value_or(0) > 0) run.data_wait_share = *wait / *run.median_step_ms;
  run.wall_s = metrics.seconds;
  run.best_metrics.clear();  // an earlier summary's
  run.best_step.reset();
  run.final_metrics.clear();
  for (const Curve& curve : run.curves) {
    if (curve.name.starts_with("eval "))
      run.final_metrics.emplace_back(curve.name.substr(5), curve.points.back().value);
    if (curve.name != "memory_mib") continue;
    for (const CurvePoint& point : curve.points)
      run.peak_memory_mib = std::max(run.peak_memory_mib.value_or(0), point.value);
  }
}

/// Reads summary.json. If it is missing or unreadable, adds a remark and returns nothing.
std::optional<ordered_json> read_summary(RunRecord& run) {
  const std::filesystem::path path = run.path / "summary.json";
  if (!std::filesystem::exists(path)) {
    run.remarks.emplace_back(
        "unfinished (no summary.json: the run was killed or is still running); figures come from its records");
    return {};
  }
  ordered_json summary = core::parse_json_or_discard<ordered_json>(core::read_file(path));
  if (summary.is_object()) return summary;
  run.remarks.emplace_back("summary.json can't be read as JSON; figures are of the records");
  return {};
}

void read_config(RunRecord& run) {
  const std::filesystem::path path = run.path / "config.yaml";
  if (!std::filesystem::exists(path)) {
    run.remarks.emplace_back("config.yaml is not there; its differences are not known");
    return;
  }
  config::Problems problems;
  const std::optional<config::Node> root = config::parse_file(path, problems);
  if (root && problems.empty()) {
    run.config = config::flatten(*root);
  } else {
    run.remarks.emplace_back("config.yaml can't be read; its differences are not known");
  }
}

core::Error no_run(const std::filesystem::path& path) {
  core::Error error(path.string() + " is no run directory: neither metrics.jsonl nor summary.json is in it");
  std::vector<std::string> runs;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (entry.is_directory() && is_run_directory(entry.path())) runs.push_back(entry.path().string());
  std::sort(runs.rbegin(), runs.rend());
  if (runs.size() > 3) runs.resize(3);
  return runs.empty() ? error.hint("give directories that 'trainctl train' wrote, runs/<name>/<time>-<n>")
                      : error.hint("the directory holds runs: " + core::list_words(runs));
}

}  // namespace

bool is_run_directory(const std::filesystem::path& path) {
  return std::filesystem::exists(path / "metrics.jsonl") || std::filesystem::exists(path / "summary.json");
}

bool is_failed_start(const std::filesystem::path& path) {
  return std::filesystem::exists(path / "config.yaml") && std::filesystem::exists(path / ".config_hash");
}

RunRecord read_run(const std::filesystem::path& path) {
  if (!is_run_directory(path)) throw no_run(path);
  RunRecord run{.path = path};
  run.name = std::filesystem::absolute(path / "").parent_path().lexically_normal().filename().string();
  Metrics metrics;
  const bool has_metrics = std::filesystem::exists(path / "metrics.jsonl");
  if (has_metrics) {
    metrics = read_metrics(path / "metrics.jsonl");
    run.curves = std::move(metrics.curves);
    run.remarks = metrics.remarks;
  } else {
    run.remarks.emplace_back("metrics.jsonl is not there; it has no curves");
  }
  const std::optional<ordered_json> summary = read_summary(run);
  if (summary) {
    take_summary(*summary, run);
    if (run.steps < metrics.last_step) {
      run.remarks.push_back("unfinished: the run was resumed after summary.json was written at step " +
                            core::format_count(run.steps) + "; figures are of its records");
      take_records(metrics, run);
    } else if (kAsLong * run.wall_s.value_or(0) < metrics.seconds) {
      run.remarks.push_back("resumed: its last start took " + core::format_duration(run.wall_s.value_or(0)) +
                            "; the time is that of all recorded steps and evaluations");
      run.wall_s = metrics.seconds;
    }
  } else {
    take_records(metrics, run);
  }
  read_config(run);
  run.evaluation = read_evaluation(path);
  return run;
}

}  // namespace trainctl::compare
