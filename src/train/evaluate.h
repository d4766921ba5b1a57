// Metrics over the evaluation set.
#pragma once

#include <string>

#include "task/task.h"
#include "train/run.h"

namespace trainctl {

struct EvaluationResult {
  Metrics metrics;
  std::string details;  // JSON or ""
  double seconds = 0;
};

/// The whole evaluation set, with averaged weights where the run keeps them. `sink` hears of progress.
EvaluationResult evaluate(Run& run, Sink& sink);

}  // namespace trainctl
