// What a profile says to change. Each rule is a pure function of the summary, in a file of its own.
#pragma once

#include <vector>

#include "profiler/summary.h"

namespace trainctl::profiler {

/// At most five, first what wins most of the step's time or of its memory. A healthy run has none.
std::vector<Finding> find_findings(const ProfileSummary& summary);

}  // namespace trainctl::profiler
