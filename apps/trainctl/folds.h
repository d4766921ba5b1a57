// `trainctl train CONFIG --folds K`: a run for each fold, one after another, and the mean and spread of their metrics.
#pragma once

#include <cstdint>

#include "command.h"
#include "engine_call.h"

namespace trainctl::cli {

struct FoldsOptions {
  ExperimentOptions experiment;
  RunOptions run;
  TrainOptions train;
  std::int64_t num_ranks = 1;
  std::int64_t num_folds = 0;
};

/// Trains the runs that are not finished yet: each is a command of its own, in a run directory below one parent.
/// Returns the exit code of the first that does not end well.
int train_folds(FoldsOptions options);

}  // namespace trainctl::cli
