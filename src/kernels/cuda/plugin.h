// What the CUDA library (libtrainctl_cuda.so, loaded where there is a driver) offers of this folder, by symbol name.
#pragma once

#include "kernels/device/grid.h"

namespace trainctl::kernels {

/// `const Grid& trainctl_cuda_grid()`: the current stream of the current device.
inline constexpr const char* kCudaGridSymbol = "trainctl_cuda_grid";
using CudaGridFunction = const device::Grid&();

}  // namespace trainctl::kernels
