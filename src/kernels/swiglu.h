// SwiGLU's gate (https://arxiv.org/abs/2002.05202) in one pass forward and one backward.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainctl::kernels {

/// silu(gate) · up, elementwise, of equal shapes. Only its inputs are kept for the backward pass.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace trainctl::kernels
