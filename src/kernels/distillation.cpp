#include "kernels/distillation.h"

#include <ATen/ops/log_softmax.h>

namespace trainctl::kernels {

DistillationRows distillation_rows(const at::Tensor& student, const at::Tensor& teacher, double temperature) {
  at::Tensor gradient = at::log_softmax(student.div(temperature), 1);
  at::Tensor wanted = at::log_softmax(teacher.div(temperature), 1);
  at::Tensor gap = wanted.sub(gradient);
  wanted.exp_();
  const at::Tensor losses = gap.mul_(wanted).sum(1).mul_(temperature * temperature);
  return {.losses = losses, .gradient = gradient.exp_().sub_(wanted).mul_(temperature)};
}

at::Tensor distillation_losses(const at::Tensor& student, const at::Tensor& teacher, double temperature) {
  const at::Tensor log_probs = at::log_softmax(student.div(temperature), 1);
  const at::Tensor wanted = at::log_softmax(teacher.div(temperature), 1);
  return wanted.exp().mul(wanted.sub(log_probs)).sum(1).mul(temperature * temperature);
}

}  // namespace trainctl::kernels
