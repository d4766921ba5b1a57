// What the profiler is told of a run.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "profiler/profiler.h"
#include "train/run/run.h"

namespace trainctl::train {

/// Measures the device's peaks in the types that a run could compute in.
profiler::Peaks measure_peaks(const Run& run);

/// Keeps a reference to the run.
profiler::ProfiledRun describe_for_profiler(Run& run, const profiler::Peaks& peaks,
                                            const std::filesystem::path& run_directory,
                                            const std::map<std::string, std::string>& settings);

}  // namespace trainctl::train
