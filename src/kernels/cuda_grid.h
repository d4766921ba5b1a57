// The grid that the kernels of device/ run on where there is a GPU.
#pragma once

#include "kernels/device/grid.h"

namespace trainctl::kernels {

/// Returns the current stream of the current GPU. Throws Error where our CUDA library is missing.
const device::Grid& cuda_grid();

}  // namespace trainctl::kernels
