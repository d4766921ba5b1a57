// A Chrome trace as Kineto writes it, kept below a size.
#pragma once

#include <cstdint>
#include <filesystem>

#include "profiler/summary.h"

namespace trainctl::profiler {

/// Rewrites the trace where it is longer than `most_bytes`: arrows go first, then allocations, then operators and
/// kernels, the shortest first; spans and what names threads stay. Takes as much memory as one event.
TraceFile bound_trace(const std::filesystem::path& path, std::int64_t most_bytes);

}  // namespace trainctl::profiler
