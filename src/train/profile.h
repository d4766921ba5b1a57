// A few steps of a run under the profiler.
#pragma once

#include "profiler/profiler.h"
#include "train/run.h"

namespace trainctl {

/// As many steps as the profiler's schedule has. Nothing is evaluated or saved.
ProfileSummary profile(Run& run, Profiler& profiler, Sink& sink);

}  // namespace trainctl
