// Starts a kernel of kernels/device. For this folder's .cu files, which include nothing of ATen: with it, nvcc takes a
// minute a file.
#pragma once

#include "kernels/cuda/stream_grid.h"
#include "kernels/device/block.h"

namespace trainctl::kernels::cuda {

template <class Kernel>
__global__ void __launch_bounds__(device::kMostThreads) run_kernel(const __grid_constant__ Kernel kernel) {
  kernel(device::Block());
}

template <class Kernel>
void start(const Kernel& kernel, const device::Launch& launch) {
  const dim3 blocks(static_cast<unsigned>(launch.blocks));
  const dim3 threads(static_cast<unsigned>(launch.threads));
  run_kernel<<<blocks, threads, 0, current_stream()>>>(kernel);
  check_start();
}

}  // namespace trainctl::kernels::cuda
