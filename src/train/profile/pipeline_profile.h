// The ranks of a pipeline compared, from what each of them recorded.
#pragma once

#include <optional>
#include <vector>

#include "profiler/summary.h"
#include "train/run/run.h"

namespace trainctl::train {

/// Called by all ranks. `steps`: this rank's own. Returns nothing without a pipeline, or if no step was recorded.
std::optional<profiler::PipelineSummary> compare_stages(Run& run, const std::vector<profiler::PipelineStep>& steps);

}  // namespace trainctl::train
