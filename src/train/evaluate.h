// Metrics over the evaluation set.
#pragma once

#include <string>

#include "task/task.h"
#include "train/run.h"
#include "train/stop_signal.h"

namespace trainctl {

struct EvaluationResult {
  Metrics metrics;
  std::string details;  // JSON or ""
  double seconds = 0;
  int signal = 0;  // not 0: some rank was sent it, and the evaluation was broken off, without metrics
};

/// The whole evaluation set, with averaged weights where the run keeps them. `sink` hears of progress. About once a
/// second the ranks ask each other what they were sent.
EvaluationResult evaluate(Run& run, Sink& sink, const SignalSource& received = {});

}  // namespace trainctl
