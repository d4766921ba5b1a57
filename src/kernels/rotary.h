// Rotary position embedding (https://arxiv.org/abs/2104.09864), in the halves layout of Llama in transformers: element
// i turns with element i + d/2.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainctl::kernels {

/// heads [B, H, T, d]; cosine and sine [T, d/2] or [B, T, d/2], of float. The result lies in memory as [B, T, H, d].
at::Tensor rotate(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine);

}  // namespace trainctl::kernels
