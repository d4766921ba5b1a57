#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <algorithm>

#include "runtime/cuda/plugin.h"

extern "C" __attribute__((visibility("default"))) trainctl::runtime::LimitMemoryFunction trainctl_cuda_limit_memory;

void trainctl_cuda_limit_memory(int device, std::int64_t bytes) {
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess || total == 0) return;
  const double share = static_cast<double>(bytes) / static_cast<double>(total);
  c10::cuda::CUDACachingAllocator::setMemoryFraction(std::min(1.0, share), static_cast<c10::DeviceIndex>(device));
}
