// The runs below a directory, as their files tell of them. Nothing is changed, and no link is followed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::runs {

/// The value by which the best evaluation of a run was chosen, or another one of that evaluation.
struct BestMetric {
  std::string name;
  double value = 0;
  bool is_larger_better = false;
};

struct RunEntry {
  std::filesystem::path path;
  std::string name;    // of the experiment
  std::string state;   // one of run_states()
  double started = 0;  // Unix seconds; 0: not known
  std::int64_t steps = 0;
  std::optional<std::int64_t> total_steps{};
  std::optional<BestMetric> best{};
  std::optional<double> wall_s{};
  std::uint64_t bytes = 0;  // of all files
  bool has_checkpoints = false;
};

/// "finished", "stopped" (by a signal), "failed", "unfinished" (killed), "training" (a process has the directory) and
/// "no_step" (ended before its first record).
const std::vector<std::string>& run_states();

struct RunList {
  std::vector<RunEntry> runs;
  std::vector<std::string> problems;  // directories that can't be read, with the reason
};

/// Finds the runs below a directory, or the directory's own run. Throws core::Error if there is no such directory.
RunList list_runs(const std::filesystem::path& root);

/// What is shown of a list.
struct RunFilter {
  std::vector<std::string> names{};        // patterns with * and ?; empty: every name
  std::vector<std::string> states{};       // empty: every state
  std::optional<double> started_before{};  // Unix seconds; a run of an unknown time does not pass
};

bool passes(const RunEntry& run, const RunFilter& filter);

/// Ways to sort, best first: the newest, the largest, the longest.
const std::vector<std::string>& sort_keys();
void sort_runs(std::vector<RunEntry>& runs, const std::string& key);

/// Returns the runs with their figures as JSON.
std::string format_json(const RunList& list);

}  // namespace trainctl::runs
