// Metrics of runs that were evaluated on different folds, with their mean and spread.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace trainctl::cli {

struct FoldMetric {
  std::string name;
  std::vector<double> values;  // of each fold; nan where a run has none

  double mean() const;
  /// Returns the sample standard deviation: the divisor is one less than the number of folds.
  double standard_deviation() const;
};

/// Whether the run there came to its end.
bool is_finished_run(const std::filesystem::path& run);

/// Returns the metrics of the runs' last evaluations, or of their best ones (`final_metrics`, `best_metrics`).
std::vector<FoldMetric> metrics_of_folds(const std::vector<std::filesystem::path>& runs, const std::string& kind);

nlohmann::ordered_json as_json(const std::vector<FoldMetric>& metrics);

/// Rows: mean, standard deviation and each fold's value.
std::string as_table(const std::vector<FoldMetric>& metrics);

}  // namespace trainctl::cli
