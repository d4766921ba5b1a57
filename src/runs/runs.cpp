#include "runs/runs.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "runs/run_entry.h"

namespace trainctl::runs {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int kMostLevels = 8;  // between the directory and a run

/// Collects the runs of a directory and those below. Links are passed over.
void collect(const fs::path& directory, int level, std::vector<fs::path>& runs, std::vector<std::string>& problems) {
  if (is_run(directory)) {
    runs.push_back(directory);
    return;
  }
  if (level == kMostLevels) return;
  std::error_code error;
  std::vector<fs::path> below;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code gone;
    if (entry->symlink_status(gone).type() == fs::file_type::directory) below.push_back(entry->path());
  }
  if (error) problems.push_back("cannot list " + directory.string() + ": " + error.message());
  std::sort(below.begin(), below.end());
  for (const fs::path& path : below) collect(path, level + 1, runs, problems);
}

template <class Value>
ordered_json or_null(const std::optional<Value>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

/// Returns a number that is larger for a better run.
std::optional<double> goodness(const RunEntry& run) {
  if (!run.best || !std::isfinite(run.best->value)) return std::nullopt;
  return run.best->is_larger_better ? run.best->value : -run.best->value;
}

/// Whether `a` stands before `b`: the larger value first, and those without a value last.
bool is_before(const std::optional<double>& a, const std::optional<double>& b) {
  return a && (!b || *a > *b);
}

std::optional<double> sort_value(const RunEntry& run, const std::string& key) {
  if (key == "best") return goodness(run);
  if (key == "size") return static_cast<double>(run.bytes);
  if (key == "time") return run.wall_s;
  if (key == "steps") return static_cast<double>(run.steps);
  return run.started;
}

}  // namespace

const std::vector<std::string>& run_states() {
  static const std::vector<std::string> states{"finished", "stopped", "failed", "unfinished", "training", "no_step"};
  return states;
}

const std::vector<std::string>& sort_keys() {
  static const std::vector<std::string> keys{"newest", "name", "best", "steps", "time", "size"};
  return keys;
}

RunList list_runs(const fs::path& root) {
  std::error_code error;
  if (!fs::is_directory(root, error))
    throw core::Error(root.string() + ": no such directory" + (error ? ": " + error.message() : ""))
        .hint("name the directory that holds the runs; 'trainctl train' writes to runs/<name>/<time>-<n>");
  RunList list;
  std::vector<fs::path> paths;
  collect(root, 0, paths, list.problems);
  for (const fs::path& path : paths) list.runs.push_back(read_entry(path, list.problems));
  return list;
}

bool passes(const RunEntry& run, const RunFilter& filter) {
  const auto fits = [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), run.name.c_str(), 0) == 0; };
  if (!filter.names.empty() && std::none_of(filter.names.begin(), filter.names.end(), fits)) return false;
  if (!filter.states.empty() && std::find(filter.states.begin(), filter.states.end(), run.state) == filter.states.end())
    return false;
  return !filter.started_before || (run.started > 0 && run.started < *filter.started_before);
}

void sort_runs(std::vector<RunEntry>& runs, const std::string& key) {
  std::stable_sort(runs.begin(), runs.end(), [](const RunEntry& a, const RunEntry& b) {
    return a.started != b.started ? a.started > b.started : a.path > b.path;
  });
  if (key == "newest") return;
  std::stable_sort(runs.begin(), runs.end(), [&](const RunEntry& a, const RunEntry& b) {
    if (key == "name") return a.name < b.name;
    const std::string metric_a = a.best ? a.best->name : "", metric_b = b.best ? b.best->name : "";
    if (key == "best" && metric_a != metric_b && a.best && b.best) return metric_a < metric_b;
    return is_before(sort_value(a, key), sort_value(b, key));
  });
}

std::string format_json(const RunList& list) {
  ordered_json runs = ordered_json::array();
  for (const RunEntry& run : list.runs) {
    ordered_json best = nullptr;
    if (run.best)
      best = {{"metric", run.best->name},
              {"value", std::isfinite(run.best->value) ? ordered_json(run.best->value) : ordered_json(nullptr)},
              {"mode", run.best->is_larger_better ? "max" : "min"}};
    runs.push_back({{"path", run.path.string()},
                    {"name", run.name},
                    {"state", run.state},
                    {"started", run.started},
                    {"steps", run.steps},
                    {"total_steps", or_null(run.total_steps)},
                    {"best", std::move(best)},
                    {"wall_s", or_null(run.wall_s)},
                    {"bytes", run.bytes},
                    {"has_checkpoints", run.has_checkpoints}});
  }
  return ordered_json{{"runs", std::move(runs)}, {"problems", list.problems}}.dump(
      2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace trainctl::runs
