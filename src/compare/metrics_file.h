// metrics.jsonl of a run directory, as curves; of a run that was killed, or still writes, all that can be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "compare/curve.h"

namespace trainctl::compare {

struct Metrics {
  std::vector<Curve> curves;         // in the order in which they first came
  std::int64_t last_step = 0;        // of any record
  double seconds = 0;                // that the recorded steps and evaluations took
  std::vector<std::string> remarks;  // what is damaged, came twice, or isn't finite
};

/// The file exists.
Metrics read_metrics(const std::filesystem::path& path);

}  // namespace trainctl::compare
