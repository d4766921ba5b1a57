// Metrics over the evaluation set.
#pragma once

#include <string>

#include "task/examples.h"
#include "task/task.h"
#include "train/loop/stop_signal.h"
#include "train/run/run.h"

namespace trainctl::train {

struct EvaluationResult {
  task::Metrics metrics;
  std::string details;  // JSON or ""
  double seconds = 0;
  task::Examples examples{};  // as many as were asked for
  int signal = 0;             // not 0: some rank was sent it, and the evaluation was broken off, without metrics
};

/// The whole evaluation set, with averaged weights where the run keeps them. `sink` hears of progress. About once a
/// second the ranks ask each other what they were sent. `num_examples`: of the first samples, and of those with the
/// largest loss.
EvaluationResult evaluate(Run& run, tracking::Sink& sink, const SignalSource& received = {},
                          std::int64_t num_examples = 0);

}  // namespace trainctl::train
