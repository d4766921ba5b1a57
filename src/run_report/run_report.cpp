#include "run_report/run_report.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "compare/curve.h"
#include "compare/evaluation_file.h"
#include "compare/record_json.h"
#include "compare/run_record.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "html_report/page.h"
#include "run_report/report.js.h"
#include "runs/run_lock.h"

namespace trainctl::run_report {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Returns the file's bytes; "" if there is no such file that can be read.
std::string read_if_there(const fs::path& path, std::size_t max_bytes) {
  std::error_code unreadable;
  if (!fs::is_regular_file(path, unreadable)) return "";
  try {
    return core::read_file(path, max_bytes);
  } catch (const core::Error&) {  // the page shows what else there is
    return "";
  }
}

/// Returns the file's object; null if there is none, or if it is larger than 64 MiB.
ordered_json read_object(const fs::path& path) {
  ordered_json json = core::parse_json_or_discard<ordered_json>(read_if_there(path, std::size_t{64} << 20));
  return json.is_object() ? json : ordered_json();
}

/// Returns the member, or null.
ordered_json member(const ordered_json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found == object.end() ? ordered_json() : *found;
}

/// Returns the warnings of notices.jsonl: [{"step": …, "text": …}], each text once with its first step, at most `most`.
ordered_json warnings_of(const fs::path& run_directory, std::size_t most) {
  ordered_json warnings = ordered_json::array();
  std::set<std::string> known;
  std::istringstream lines(read_if_there(run_directory / "notices.jsonl", std::size_t{16} << 20));
  for (std::string line; warnings.size() < most && std::getline(lines, line);) {
    const ordered_json notice = core::parse_json_or_discard<ordered_json>(line);
    const ordered_json text = member(notice, "text");
    if (member(notice, "level") != "warning" || !text.is_string()) continue;
    if (known.insert(text.get<std::string>()).second)
      warnings.push_back({{"step", member(notice, "step")}, {"text", text}});
  }
  return warnings;
}

constexpr std::size_t kMostPoints = 1'000;  // of a curve
constexpr std::size_t kMostCurves = 60;     // the rest is left out, and said
constexpr std::size_t kMostWarnings = 200;
constexpr std::size_t kMostMatrixClasses = 40;
constexpr std::size_t kMostPairs = 40;
constexpr std::size_t kMostText = 4'000;  // characters of a value of the config

/// Returns the run's record. A run that ended before its first record has none of its figures.
compare::RunRecord record_of(const fs::path& directory) {
  if (compare::is_run_directory(directory) || !compare::is_failed_start(directory)) return compare::read_run(directory);
  compare::RunRecord run{.path = directory, .state = "no record"};
  run.name = fs::weakly_canonical(directory).filename().string();
  run.remarks.emplace_back("the run ended, or was stopped, before its first record");
  return run;
}

ordered_json curves_of(const compare::RunRecord& run) {
  ordered_json curves = ordered_json::array();
  for (const compare::Curve& whole : run.curves) {
    if (curves.size() == kMostCurves) break;
    ordered_json steps = ordered_json::array(), seconds = ordered_json::array(), values = ordered_json::array();
    for (const compare::CurvePoint& point : compare::thin(whole, kMostPoints).points) {
      steps.push_back(point.step);
      seconds.push_back(compare::rounded(point.seconds));
      values.push_back(compare::rounded(point.value));
    }
    curves.push_back({{"name", whole.name}, {"step", steps}, {"seconds", seconds}, {"value", values}});
  }
  return curves;
}

ordered_json classes_of(const compare::EvaluationFile& evaluation) {
  ordered_json classes = ordered_json::array();
  for (const compare::ClassFigures& one : evaluation.classes)
    classes.push_back({{"name", one.name},
                       {"count", compare::or_null(one.count)},
                       {"precision", compare::or_null(one.precision)},
                       {"recall", compare::or_null(one.recall)},
                       {"f1", compare::or_null(one.f1)}});
  return classes;
}

ordered_json evaluation_of(const compare::RunRecord& run) {
  const std::optional<compare::EvaluationFile>& evaluation = run.evaluation;
  if (!evaluation) return {};
  ordered_json pairs = ordered_json::array();
  for (const compare::Confusion& pair : compare::most_confused(*evaluation, kMostPairs))
    pairs.push_back(
        {{"label", pair.label}, {"prediction", pair.prediction}, {"count", pair.count}, {"share", pair.share}});
  const bool has_matrix = evaluation->confusion.size() <= kMostMatrixClasses;
  return {{"step", evaluation->step},
          {"seconds", evaluation->seconds},
          {"metrics", compare::object_of(evaluation->metrics)},
          {"num_samples", compare::or_null(evaluation->num_samples)},
          {"classes", classes_of(*evaluation)},
          {"confusion", has_matrix ? ordered_json(evaluation->confusion) : ordered_json::array()},
          {"confused", std::move(pairs)}};
}

/// Returns [{"key", "value", "origin"}]: the origin is null if it isn't recorded, and "default" for what nobody wrote.
ordered_json config_of(const compare::RunRecord& run, const ordered_json& origins) {
  ordered_json keys = ordered_json::array();
  for (const auto& [key, value] : run.config) {
    const ordered_json origin = member(origins, key.c_str());
    const bool is_long = value.size() > kMostText;
    keys.push_back({{"key", key},
                    {"value", is_long ? value.substr(0, kMostText) + "…" : value},
                    {"origin", origins.is_null()  ? ordered_json()
                               : origin.is_null() ? ordered_json("default")
                                                  : origin}});
  }
  return keys;
}

/// Returns what the run was trained on and with: the start's description without the origins, and the summary's own.
ordered_json environment_of(const ordered_json& provenance, const ordered_json& summary) {
  ordered_json environment = provenance.is_object() ? provenance : ordered_json::object();
  environment.erase("origins");
  const ordered_json versions = member(summary, "provenance");
  if (versions.is_object())
    for (const auto& [key, value] : versions.items())
      if (!environment.contains(key)) environment[key] = value;
  return environment;
}

/// Returns the name of the metric by which the run's best evaluation is told: the config's, or the first one beside the
/// loss.
std::string watched_metric(const compare::RunRecord& run) {
  if (const auto named = run.config.find("checkpoint.best.metric"); named != run.config.end()) return named->second;
  const compare::NamedValues& values = run.best_metrics.empty() ? run.final_metrics : run.best_metrics;
  for (const auto& [name, value] : values)
    if (name != "loss") return name;
  return values.empty() ? "" : values.front().first;
}

std::string state_of(const compare::RunRecord& run) {
  return run.state == "unfinished" && runs::is_locked(run.path) ? "training" : run.state;
}

ordered_json document_of(const compare::RunRecord& run) {
  const ordered_json summary = read_object(run.path / "summary.json");
  const ordered_json provenance = read_object(run.path / "provenance.json");
  const ordered_json predictions = read_object(run.path / "predictions.json");
  std::vector<std::string> remarks = run.remarks;
  std::erase_if(remarks, [](const std::string& remark) { return remark.starts_with("failed: "); });
  ordered_json document{{"path", fs::absolute(run.path).lexically_normal().string()},
                        {"state", state_of(run)},
                        {"error", member(summary, "error")},
                        {"remarks", std::move(remarks)},
                        {"warnings", warnings_of(run.path, kMostWarnings)},
                        {"watched", watched_metric(run)},
                        {"data_wait_cause", member(summary, "data_wait_cause")},
                        {"memory_by_rank", member(summary, "memory_by_rank")},
                        {"time_to_first_step_s", member(summary, "time_to_first_step_s")},
                        {"skipped_steps", member(summary, "skipped_steps")},
                        {"curves", curves_of(run)},
                        {"num_curves_left_out", run.curves.size() - std::min(run.curves.size(), kMostCurves)},
                        {"evaluation", evaluation_of(run)},
                        {"predictions", predictions},
                        {"config", config_of(run, member(provenance, "origins"))},
                        {"environment", environment_of(provenance, summary)}};
  document.update(compare::figures_of(run));
  return document;
}

/// Returns "digits · 20261126T101500Z-1": the experiment's name and the directory's, or one if they are the same.
std::string title_of(const compare::RunRecord& run) {
  const auto name = run.config.find("name");
  const std::string directory = fs::weakly_canonical(run.path).filename().string();
  if (name == run.config.end() || name->second == directory) return directory;
  return name->second + " · " + directory;
}

}  // namespace

std::string format_report(const fs::path& run_directory) {
  const compare::RunRecord run = record_of(run_directory);
  return html_report::format_page(
      {.title = title_of(run),
       .data = document_of(run).dump(-1, ' ', false, ordered_json::error_handler_t::replace),
       .script = kRunReportReportJs});
}

fs::path write_report(const fs::path& run_directory, const fs::path& output) {
  const std::string page = format_report(run_directory);
  const fs::path path = output.empty() ? run_directory / "report.html" : output;
  core::write_file_atomically(path, page);
  return path;
}

}  // namespace trainctl::run_report
