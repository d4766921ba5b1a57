#include <torch/csrc/cuda/memory_snapshot.h>

#include "profiler/record/cuda/plugin.h"

extern "C" __attribute__((visibility("default"))) trainctl::profiler::RecordMemoryFunction trainctl_cuda_record_memory;
extern "C" __attribute__((visibility("default")))
trainctl::profiler::MemorySnapshotFunction trainctl_cuda_memory_snapshot;

void trainctl_cuda_record_memory(std::size_t num_entries) {
  if (num_entries == 0)
    torch::cuda::_record_memory_history(std::optional<std::string>());
  else
    torch::cuda::_record_memory_history("all", "all", "all", num_entries);
}

void trainctl_cuda_memory_snapshot(std::string& pickle) {
  pickle = torch::cuda::_memory_snapshot_pickled();
}
