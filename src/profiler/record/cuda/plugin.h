// What the CUDA library offers to the profiler, by symbol name.
#pragma once

#include <cstddef>
#include <string>

namespace trainctl::profiler {

/// `void trainctl_cuda_record_memory(std::size_t num_entries)`: from now on the allocator remembers what it did, at
/// most so many entries; 0 ends it.
inline constexpr const char* kRecordMemorySymbol = "trainctl_cuda_record_memory";
using RecordMemoryFunction = void(std::size_t num_entries);

/// `void trainctl_cuda_memory_snapshot(std::string& pickle)`: what pytorch.org/memory_viz reads.
inline constexpr const char* kMemorySnapshotSymbol = "trainctl_cuda_memory_snapshot";
using MemorySnapshotFunction = void(std::string& pickle);

}  // namespace trainctl::profiler
