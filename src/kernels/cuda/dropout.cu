#include "kernels/device/dropout.h"

#include "kernels/cuda/launch.cuh"

namespace trainctl::kernels::cuda {

void StreamGrid::run(const device::DropoutArguments& given) const {
  device::with_kernel(given, [&](const auto& kernel) { start(kernel, given.launch(most_blocks())); });
}

}  // namespace trainctl::kernels::cuda
