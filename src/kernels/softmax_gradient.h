// Cross-entropy and its gradient from logits, in place.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainctl::kernels {

/// logits [R, V], float or bf16, contiguous, become softmax(logits + bias) - target distribution: the losses' gradient.
/// The target distribution is 1 - label_smoothing at the target plus label_smoothing spread evenly. Returns the losses,
/// float [R]. targets int64 [R], all in range; bias float [V], or undefined. On the CPU only: each row is read twice
/// from memory and once written, with one exponential an element, and sums in float.
at::Tensor to_softmax_gradient(at::Tensor& logits, const at::Tensor& targets, double label_smoothing,
                               const at::Tensor& bias = {});

}  // namespace trainctl::kernels
