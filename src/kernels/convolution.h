// Two-dimensional convolutions by the fastest algorithm for their shape.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "kernels/winograd.h"

namespace trainctl::kernels {

/// Both directions have the same numbers.
struct ConvolutionGeometry {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};

/// Does what at::conv2d does: input [B, C, H, W], weight [O, C / groups, k, k] and bias [O].
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       const ConvolutionGeometry& geometry, Winograd winograd = Winograd::where_it_suits);

}  // namespace trainctl::kernels
