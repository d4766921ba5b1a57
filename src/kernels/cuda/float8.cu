#include "kernels/device/float8.h"

#include "kernels/cuda/launch.cuh"

namespace trainctl::kernels::cuda {

void StreamGrid::run(const device::QuantizeArguments& given) const {
  device::with_kernel(given, [&](const auto& kernel) { start(kernel, given.launch(most_blocks())); });
}

}  // namespace trainctl::kernels::cuda
