#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "optimizer/optimizer.h"

namespace trainctl {

at::Tensor clip_grad_norm(const std::vector<OptimizedParameter>& parameters, std::optional<double> max_norm) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const OptimizedParameter& parameter : parameters)
    if (const at::Tensor& gradient = parameter.tensor.grad(); gradient.defined()) gradients.push_back(gradient);
  if (gradients.empty()) {
    const auto options =
        parameters.empty() ? at::TensorOptions() : parameters.front().tensor.options().requires_grad(false);
    return at::zeros({}, options);
  }
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients)));
  if (!max_norm) return norm;
  constexpr double kTiny = 1e-6;  // torch.nn.utils.clip_grad_norm_'s
  if (norm.is_cpu()) {
    const double coefficient = *max_norm / (norm.item<double>() + kTiny);
    if (coefficient >= 1) return norm;
    at::_foreach_mul_(gradients, coefficient);  // also when the norm is NaN, as there
  } else {
    at::_foreach_mul_(gradients, norm.add(kTiny).reciprocal_().mul_(*max_norm).clamp_max_(1));
  }
  return norm;
}

}  // namespace trainctl
