#include "kernels/cuda/stream_grid.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

#include "kernels/cuda/plugin.h"

namespace trainctl::kernels::cuda {

std::int64_t StreamGrid::most_blocks() const {
  constexpr std::int64_t kPerProcessor = 4;
  return kPerProcessor * at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
}

cudaStream_t current_stream() {
  return at::cuda::getCurrentCUDAStream().stream();
}

void check_start() {
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace trainctl::kernels::cuda

extern "C" __attribute__((visibility("default"))) trainctl::kernels::CudaGridFunction trainctl_cuda_grid;

const trainctl::kernels::device::Grid& trainctl_cuda_grid() {
  static const trainctl::kernels::cuda::StreamGrid grid;
  return grid;
}
