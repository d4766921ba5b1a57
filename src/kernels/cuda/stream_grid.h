// Starts kernels on the current stream of the current device. For this folder alone.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/grid.h"

namespace trainctl::kernels::cuda {

class StreamGrid final : public device::Grid {
 public:
  std::int64_t most_blocks() const override;
  // Each in the .cu file of its kernels.
  void run(const device::AddNormForwardArguments& given) const override;
  void run(const device::AddNormBackwardArguments& given) const override;
  void run(const device::BiasGeluArguments& given) const override;
  void run(const device::SwigluArguments& given) const override;
  void run(const device::DropoutArguments& given) const override;
  void run(const device::AdamArguments& given) const override;
  void run(const device::QuantizeArguments& given) const override;
};

cudaStream_t current_stream();
/// Throws c10::Error if the last kernel couldn't be started.
void check_start();

}  // namespace trainctl::kernels::cuda
