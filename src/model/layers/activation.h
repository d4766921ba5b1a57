// Activation functions.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>

namespace trainctl {

/// For outputs of convolutions, normalisations and pools, which autograd doesn't need again.
inline at::Tensor relu_in_place(at::Tensor value) {
  return at::relu_(value);
}

/// GELU's approximation by tanh (https://arxiv.org/abs/1606.08415), GPT-2's: `gelu_new` in transformers.
inline at::Tensor gelu_tanh(const at::Tensor& value) {
  return at::gelu(value, "tanh");
}

}  // namespace trainctl
