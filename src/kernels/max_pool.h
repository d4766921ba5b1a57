// The largest of each window of pixels, and ReLU of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trainctl::kernels {

struct PoolWindow {
  std::int64_t side;
  std::int64_t stride;
  std::int64_t padding;
};
constexpr PoolWindow kPool2x2{.side = 2, .stride = 2, .padding = 0};
constexpr PoolWindow kPool3x3{.side = 3, .stride = 2, .padding = 1};

/// Computes max(0, max_pool2d(input)), [B, C, H, W] -> [B, C, H', W'], for one of these two windows. Of equal pixels
/// the first gets the gradient, and a window without a positive pixel passes none on. What is not a number stays. For
/// floats of a CPU in channels_last, with channels in whole vectors, the backward pass keeps a byte for each output,
/// and not the input. No bit depends on the number of threads then. LibTorch's operators do the rest.
at::Tensor relu_of_max_pool(const at::Tensor& input, const PoolWindow& window);

}  // namespace trainctl::kernels
