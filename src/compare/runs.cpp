#include "compare/runs.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "core/error.h"

namespace trainctl::compare {
namespace {

/// Returns the last `count` parts of the path.
std::string tail(const std::filesystem::path& path, std::ptrdiff_t count) {
  const std::ptrdiff_t parts = std::distance(path.begin(), path.end());
  std::filesystem::path text;
  for (auto part = std::next(path.begin(), std::max<std::ptrdiff_t>(0, parts - count)); part != path.end(); ++part)
    text /= *part;
  return text.string();
}

/// Whether a name is the time that `train` calls a directory by, 20261126T101500Z-1, which says nothing of the run.
bool is_time(const std::string& name) {
  return name.size() > 16 && name[8] == 'T' && name[15] == 'Z' &&
         std::all_of(name.begin(), name.begin() + 8, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Names each run by the fewest last path parts that distinguish all runs; a time has the experiment's name before it.
void name_apart(std::vector<RunRecord>& runs) {
  constexpr std::ptrdiff_t kDeepest = 64;
  std::vector<std::filesystem::path> paths;
  for (const RunRecord& run : runs) paths.push_back(std::filesystem::weakly_canonical(run.path));
  const bool has_times =
      std::ranges::any_of(paths, [](const std::filesystem::path& path) { return is_time(path.filename().string()); });
  for (std::ptrdiff_t count = has_times ? 2 : 1; count <= kDeepest; ++count) {
    std::set<std::string> names;
    for (const auto& path : paths) names.insert(tail(path, count));
    if (names.size() < runs.size() && count < kDeepest) continue;
    for (std::size_t i = 0; i < runs.size(); ++i) runs[i].name = tail(paths[i], count);
    return;
  }
}

std::vector<ConfigDifference> differences_of(const std::vector<RunRecord>& runs) {
  std::set<std::string> keys;
  for (const RunRecord& run : runs)
    for (const auto& [key, value] : run.config) keys.insert(key);
  std::vector<ConfigDifference> differences;
  for (const std::string& key : keys) {
    ConfigDifference difference{.key = key, .values = {}};
    std::set<std::optional<std::string>> known;
    for (const RunRecord& run : runs) {
      const auto found = run.config.find(key);
      difference.values.push_back(found == run.config.end() ? std::nullopt : std::optional(found->second));
      if (!run.config.empty()) known.insert(difference.values.back());
    }
    if (known.size() > 1) differences.push_back(std::move(difference));
  }
  return differences;
}

}  // namespace

RunComparison compare_runs(const std::vector<std::filesystem::path>& directories) {
  RunComparison comparison;
  for (const std::filesystem::path& directory : directories) {
    for (const RunRecord& known : comparison.runs)
      if (std::filesystem::equivalent(known.path, directory))
        throw core::Error(directory.string() + " is given twice").hint("give each run once");
    if (!is_run_directory(directory) && is_failed_start(directory)) {
      comparison.left_out.push_back(directory.string());
      continue;
    }
    comparison.runs.push_back(read_run(directory));
  }
  if (comparison.runs.empty() && !comparison.left_out.empty())
    throw core::Error("no run to compare: " + comparison.left_out.front() +
                      (comparison.left_out.size() > 1 ? " and the others" : "") + " ended before the first record")
        .hint("give runs that have made a step");
  name_apart(comparison.runs);
  comparison.differences = differences_of(comparison.runs);
  return comparison;
}

}  // namespace trainctl::compare
