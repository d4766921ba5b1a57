// The loop of `trainctl profile`: the training step with its records, under the profiler.
#pragma once

#include "profiler/profiler.h"
#include "train/loop/trainer.h"

namespace trainctl::train {

/// Makes as many steps as the profiler's schedule has. Evaluates and saves nothing. All ranks call it.
profiler::ProfileSummary profile_steps(Run& run, tracking::Sink& sink, const StopSignal& stop,
                                       const TrainerOptions& options);

}  // namespace trainctl::train
