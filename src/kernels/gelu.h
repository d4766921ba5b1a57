// GELU (https://arxiv.org/abs/1606.08415) with the bias before it, in one pass forward and one backward.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/gelu_form.h"

namespace trainctl::kernels {

/// Returns the function of the input, elementwise. Only the input is kept for the backward pass.
at::Tensor gelu(const at::Tensor& input, Gelu form);

/// Returns gelu(input + bias) of [..., D] and [D], without a tensor for the sum. An undefined bias adds nothing.
at::Tensor bias_gelu(const at::Tensor& input, const at::Tensor& bias, Gelu form);

}  // namespace trainctl::kernels
