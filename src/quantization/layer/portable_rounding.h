// Eight bits said in operators that every runtime has: values rounded to levels, weights as levels and scales, and
// between them products of floats. What is traced (kernels/portable.h) is made of these, not of the engines' own
// operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "quantization/backend.h"
#include "quantization/layer/quantized_layer.h"

namespace trainctl::quantization {

/// float -> a quantized tensor: unsigned bytes, or, of symmetric levels, signed ones whose zero point is 0.
at::Tensor round_to(const at::Tensor& value, const QParamBuffers& levels, ActivationScheme activations);

/// Rounds to 2^bits levels, from the tensor's least value or 0 to its largest or 0, as LibTorch's dynamic products do.
at::Tensor round_to_own_range(const at::Tensor& value, std::int64_t bits);

/// Float [out, ...] of the levels that a graph keeps.
at::Tensor floats_of(const Int8Weight& weight);

}  // namespace trainctl::quantization
