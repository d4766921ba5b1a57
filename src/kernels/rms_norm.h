// Root-mean-square normalisation in one pass (https://arxiv.org/abs/1910.07467).
#pragma once

#include <ATen/core/Tensor.h>

namespace trainctl::kernels {

/// input / √(mean(input²) + epsilon) · weight, over the last dimension: [..., D], weight [D].
at::Tensor rms_norm(const at::Tensor& input, const at::Tensor& weight, double epsilon);

}  // namespace trainctl::kernels
