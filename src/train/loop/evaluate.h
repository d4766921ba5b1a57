// Metrics over the evaluation set.
#pragma once

#include <string>

#include "task/task.h"
#include "train/loop/stop_signal.h"
#include "train/run/run.h"

namespace trainctl::train {

struct EvaluationResult {
  task::Metrics metrics;
  std::string details;  // JSON or ""
  double seconds = 0;
  int signal = 0;  // not 0: some rank was sent it, and the evaluation was broken off, without metrics
};

/// The whole evaluation set, with averaged weights where the run keeps them. `sink` hears of progress. About once a
/// second the ranks ask each other what they were sent.
EvaluationResult evaluate(Run& run, tracking::Sink& sink, const SignalSource& received = {});

}  // namespace trainctl::train
