// What a run directory says of its run; of one that is damaged, unfinished or went on after a stop, what there is, and
// what is wrong with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compare/curve.h"
#include "compare/evaluation_file.h"

namespace trainctl::compare {

using NamedValues = std::vector<std::pair<std::string, double>>;

struct RunRecord {
  std::string name;
  std::filesystem::path path;
  std::string state;  // "finished", "stopped", "failed", "unfinished"
  std::vector<std::string> remarks;
  std::int64_t steps = 0;
  NamedValues final_metrics;
  NamedValues best_metrics;
  std::optional<std::int64_t> best_step;
  std::optional<double> median_step_ms;
  std::optional<double> samples_per_s;
  std::optional<double> tokens_per_s;
  std::optional<double> data_wait_share;
  std::optional<double> peak_memory_mib;
  std::optional<double> wall_s;
  std::optional<std::int64_t> num_parameters;
  std::string device;
  std::map<std::string, std::string> config;  // flattened; empty: it couldn't be read
  std::vector<Curve> curves;
  std::optional<EvaluationFile> evaluation;  // the newest; none: not recorded
};

/// Whether something of a run is there.
bool is_run_directory(const std::filesystem::path& path);
/// Whether `train` made the directory, but ended before the run had anything to tell.
bool is_failed_start(const std::filesystem::path& path);

/// Its name is the directory's. An Error where there is no run, which says what there is.
RunRecord read_run(const std::filesystem::path& path);

}  // namespace trainctl::compare
