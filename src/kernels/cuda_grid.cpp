#include "kernels/cuda_grid.h"

#include "core/error.h"
#include "kernels/cuda/plugin.h"
#include "runtime/device.h"

namespace trainctl::kernels {

const device::Grid& cuda_grid() {
  static const auto grid = reinterpret_cast<CudaGridFunction*>(runtime::cuda_symbol(kCudaGridSymbol));
  core::ensure(grid != nullptr, "the CUDA library has no kernels");
  return grid();
}

}  // namespace trainctl::kernels
