#include "runs/run_entry.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "runs/run_lock.h"

namespace trainctl::runs {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::size_t kMostBytes = std::size_t{16} << 20;  // of a file that is read whole
constexpr std::int64_t kTailBytes = 16 << 10;              // of metrics.jsonl, which has the newest record
constexpr std::int64_t kLongestTailBytes = 64 << 20;       // where that is long, for histograms of many weights

bool is_file(const fs::path& path) {
  std::error_code unreadable;
  return fs::symlink_status(path, unreadable).type() == fs::file_type::regular;
}

/// Returns the file's object; null if there is none.
ordered_json read_object(const fs::path& path, std::vector<std::string>& problems) {
  if (!is_file(path)) return {};
  try {
    ordered_json json = core::parse_json_or_discard<ordered_json>(core::read_file(path, kMostBytes));
    if (json.is_object()) return json;
    problems.push_back(path.string() + " is damaged: it is no JSON object");
  } catch (const core::Error& error) {
    problems.emplace_back(error.what());
  }
  return {};
}

/// Returns the newest record in the file's last bytes that is whole; null if there is none.
ordered_json newest_record(std::ifstream& file, std::int64_t begin, std::int64_t end_of_file) {
  std::string tail(static_cast<std::size_t>(end_of_file - begin), '\0');
  file.seekg(begin);
  if (!file.read(tail.data(), static_cast<std::streamsize>(tail.size()))) return {};
  for (std::size_t end = tail.rfind('\n'); end != std::string::npos && end > 0;) {
    const std::size_t line = tail.rfind('\n', end - 1);
    const std::size_t first = line == std::string::npos ? 0 : line + 1;
    ordered_json record = core::parse_json_or_discard<ordered_json>(std::string_view(tail).substr(first, end - first));
    if (core::number_member(record, "step")) return record;
    end = line;
  }
  return {};
}

/// Returns the newest record of metrics.jsonl that is whole; null if there is none.
ordered_json newest_record(const fs::path& path) {
  if (!is_file(path)) return {};
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::int64_t size = file ? static_cast<std::int64_t>(file.tellg()) : 0;
  for (std::int64_t length = kTailBytes;; length *= 8) {
    ordered_json record = newest_record(file, std::max<std::int64_t>(0, size - length), size);
    if (!record.is_null() || length >= size || length >= kLongestTailBytes) return record;
  }
}

/// Returns the time in a name such as 20261126T101500Z-1, which is UTC.
std::optional<double> time_in_name(const std::string& name) {
  std::tm utc{};
  if (name.size() < 16 || name[15] != 'Z' ||
      std::sscanf(name.c_str(), "%4d%2d%2dT%2d%2d%2dZ", &utc.tm_year, &utc.tm_mon, &utc.tm_mday, &utc.tm_hour,
                  &utc.tm_min, &utc.tm_sec) != 6)
    return std::nullopt;
  utc.tm_year -= 1900;
  utc.tm_mon -= 1;
  return static_cast<double>(::timegm(&utc));
}

double start_of(const fs::path& directory, const ordered_json& provenance) {
  if (const auto named = time_in_name(directory.filename().string())) return *named;
  if (const auto started = core::number_member(provenance, "started")) return *started;
  std::error_code unreadable;
  const auto written = fs::last_write_time(directory / "config.yaml", unreadable);
  if (unreadable) return 0;
  const auto system = std::chrono::file_clock::to_sys(written);
  return std::chrono::duration<double>(system.time_since_epoch()).count();
}

/// Whether a larger value of the metric is better, by its name: if the run doesn't tell.
bool is_larger_better(const std::string& metric) {
  for (const char* part : {"loss", "perplexity", "bits_per_byte", "error", "mae", "mse", "rmse"})
    if (metric.find(part) != std::string::npos) return false;
  return true;
}

/// Returns the metric by which the best evaluation was chosen; if the config names none, the first one beside the loss.
std::optional<BestMetric> best_of(const ordered_json& summary, const ordered_json& provenance) {
  const auto metrics = summary.find("best_metrics");
  if (metrics == summary.end() || !metrics->is_object() || metrics->empty()) return std::nullopt;
  std::string name = core::text_member(provenance, "best_metric");
  if (!metrics->contains(name)) {
    name = metrics->begin().key();
    for (const auto& [key, value] : metrics->items())
      if (key != "loss") {
        name = key;
        break;
      }
  }
  const std::string mode =
      name == core::text_member(provenance, "best_metric") ? core::text_member(provenance, "best_mode") : "";
  return BestMetric{.name = name,
                    .value = core::number_member(*metrics, name.c_str()).value_or(NAN),
                    .is_larger_better = mode.empty() ? is_larger_better(name) : mode == "max"};
}

bool has_steps(const fs::path& checkpoints) {
  std::error_code unreadable;
  for (fs::directory_iterator entry(checkpoints, unreadable); !unreadable && entry != fs::directory_iterator();
       entry.increment(unreadable))
    if (entry->path().filename().string().starts_with("step_")) return true;
  return false;
}

/// Whether a run that went on after it was stopped has records beyond its summary.
bool is_beyond(const RunEntry& run, const ordered_json& summary) {
  return static_cast<double>(run.steps) > core::number_member(summary, "steps").value_or(0);
}

std::string state_of(const RunEntry& run, const ordered_json& summary, bool has_record) {
  if (is_locked(run.path)) return "training";
  const std::string outcome = core::text_member(summary, "outcome");
  const bool is_told = outcome == "finished" || outcome == "stopped" || outcome == "failed";
  if (is_told && !is_beyond(run, summary)) return outcome;
  return has_record || run.has_checkpoints || is_told ? "unfinished" : "no_step";
}

}  // namespace

bool is_run(const fs::path& directory) {
  return is_file(directory / "metrics.jsonl") || is_file(directory / "summary.json") ||
         (is_file(directory / "config.yaml") && is_file(directory / ".config_hash"));
}

std::uint64_t size_of(const fs::path& directory, std::vector<std::string>& problems) {
  std::uint64_t sum = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(directory, error); !error && entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    std::error_code gone;
    if (entry->symlink_status(gone).type() != fs::file_type::regular) continue;
    const std::uintmax_t size = entry->file_size(gone);
    if (!gone) sum += size;
  }
  if (error) problems.push_back("cannot read all of " + directory.string() + ": " + error.message());
  return sum;
}

RunEntry read_entry(const fs::path& directory, std::vector<std::string>& problems) {
  const ordered_json provenance = read_object(directory / "provenance.json", problems);
  ordered_json summary = read_object(directory / "summary.json", problems);
  if (summary.is_null()) summary = ordered_json::object();
  const ordered_json newest = newest_record(directory / "metrics.jsonl");
  RunEntry run{.path = directory, .name = core::text_member(provenance, "name")};
  if (run.name.empty()) {  // runs/<name>/<time>-<n>
    const fs::path whole = fs::absolute(directory).lexically_normal();
    run.name = (time_in_name(whole.filename().string()) ? whole.parent_path() : whole).filename().string();
  }
  run.started = start_of(directory, provenance);
  run.has_checkpoints = has_steps(directory / "checkpoints");
  run.steps = static_cast<std::int64_t>(
      std::max(core::number_member(newest, "step").value_or(0), core::number_member(summary, "steps").value_or(0)));
  if (const auto total = core::number_member(provenance, "total_steps"))
    run.total_steps = static_cast<std::int64_t>(*total);
  if (!is_beyond(run, summary)) {
    run.best = best_of(summary, provenance);
    run.wall_s = core::number_member(summary, "wall_s");
  }
  run.state = state_of(run, summary, !newest.is_null());
  run.bytes = size_of(directory, problems);
  return run;
}

}  // namespace trainctl::runs
