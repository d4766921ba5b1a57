// GELU's approximation by tanh, GPT-2's, in one pass forward and one backward.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainctl::kernels {

/// x / 2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), elementwise: https://arxiv.org/abs/1606.08415, `gelu_new` in
/// transformers. Only its input is kept for the backward pass.
at::Tensor gelu_tanh(const at::Tensor& input);

}  // namespace trainctl::kernels
