// A Chrome trace as Kineto writes it, kept below a size.
#pragma once

#include <cstdint>
#include <filesystem>

#include "profiler/summary.h"

namespace trainctl::profiler {

/// Rewrites the trace if it is longer than `most_bytes`. It leaves out arrows first, then allocations, then operators
/// and kernels, the shortest first. It keeps spans and the names of threads. Takes as much memory as one event.
TraceFile bound_trace(const std::filesystem::path& path, std::int64_t most_bytes);

}  // namespace trainctl::profiler
