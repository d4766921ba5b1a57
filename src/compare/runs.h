// `compare RUN RUN…`: runs side by side: their figures, the keys in which their configs differ, their curves.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compare/run_record.h"

namespace trainctl::compare {

/// A key in which configs differ; of each run its value, nothing where it has no such key or no config that can be
/// read.
struct ConfigDifference {
  std::string key;
  std::vector<std::optional<std::string>> values;
};

struct RunComparison {
  std::vector<RunRecord> runs;  // each with a name of its own
  std::vector<ConfigDifference> differences;
  std::vector<std::string> left_out;  // directories of runs that ended before their first record
};

/// A directory is a run. A path that is none, or the same one twice, is an Error.
RunComparison compare_runs(const std::vector<std::filesystem::path>& directories);

std::string format_table(const RunComparison& comparison);
std::string format_json(const RunComparison& comparison);
/// One page that needs nothing beside it.
std::string format_html(const RunComparison& comparison);

}  // namespace trainctl::compare
