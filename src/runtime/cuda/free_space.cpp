#include "runtime/free_space.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include "runtime/cuda/plugin.h"

extern "C" __attribute__((visibility("default"))) trainctl::runtime::FreeSpaceFunction trainctl_cuda_free_space;

void trainctl_cuda_free_space(int device, trainctl::runtime::FreeSpace& space) {
  const auto snapshot = c10::cuda::CUDACachingAllocator::snapshot({0, 0}, /*include_traces=*/false);
  for (const auto& segment : snapshot.segments) {
    if (segment.device != device) continue;
    space.reserved += static_cast<std::int64_t>(segment.total_size);
    space.allocated += static_cast<std::int64_t>(segment.allocated_size);
    for (const auto& block : segment.blocks)
      if (!block.active) space.add(static_cast<std::int64_t>(block.size));
  }
}
