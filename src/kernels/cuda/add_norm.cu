#include "kernels/device/add_norm.h"

#include "kernels/cuda/launch.cuh"

namespace trainctl::kernels::cuda {

void StreamGrid::run(const device::AddNormForwardArguments& given) const {
  device::with_kernel(given, [&](const auto& kernel) { start(kernel, given.launch(most_blocks())); });
}

void StreamGrid::run(const device::AddNormBackwardArguments& given) const {
  device::with_kernel(given, [&](const auto& kernel) { start(kernel, given.launch(most_blocks())); });
}

}  // namespace trainctl::kernels::cuda
