// Distillation: rows of logits are trained towards those of a teacher (https://arxiv.org/abs/1503.02531).
#pragma once

#include <ATen/core/Tensor.h>

namespace trainctl::kernels {

/// T² KL(softmax(teacher / T) ‖ softmax(student / T)) of rows, in nats, and its gradient. The factor T² keeps the
/// gradient's size whatever the temperature T is.
struct DistillationRows {
  at::Tensor losses;    // [R]
  at::Tensor gradient;  // [R, V], of the sum of losses, for the student's logits
};

/// student, teacher: logits [R, V] of float or double.
DistillationRows distillation_rows(const at::Tensor& student, const at::Tensor& teacher, double temperature);

/// Returns the losses [R] alone; differentiable in the student's logits.
at::Tensor distillation_losses(const at::Tensor& student, const at::Tensor& teacher, double temperature);

}  // namespace trainctl::kernels
