// The ranks of a pipeline compared, from what each of them recorded.
#pragma once

#include <vector>

#include "profiler/summary.h"
#include "train/run/run.h"

namespace trainctl::train {

/// Adds a pipeline's part to the summary of the ranks, which are in it. Called by all ranks. `steps`: this rank's own.
void compare_stages(Run& run, const std::vector<profiler::PipelineStep>& steps,
                    profiler::DistributedSummary& distributed);

}  // namespace trainctl::train
