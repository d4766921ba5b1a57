#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "amp/amp.h"

namespace trainctl::amp {

LossScaler::LossScaler(const AmpConfig& config, c10::Device device) : config_(config) {
  if (config_.mode != Precision::fp16) return;
  const DynamicScalingConfig* dynamic = config_.loss_scaling.get_if<DynamicScalingConfig>();
  const double first = dynamic ? dynamic->init_scale : config_.loss_scaling.get_if<StaticScalingConfig>()->scale;
  const auto options = at::TensorOptions().device(device);
  scale_ = at::full({}, first, options.dtype(at::kFloat));
  growth_ = at::zeros({}, options.dtype(at::kInt));
  num_overflows_ = at::zeros({}, options.dtype(at::kLong));
}

at::Tensor LossScaler::scale(const at::Tensor& loss) const {
  return is_active() ? loss.mul(scale_) : loss;
}

at::Tensor LossScaler::unscale(const std::vector<at::Tensor>& gradients) const {
  if (!is_active()) return {};
  const at::NoGradGuard no_grad;
  at::Tensor found_inf = at::zeros({}, scale_.options());
  std::vector<at::Tensor> defined;
  defined.reserve(gradients.size());
  for (const at::Tensor& gradient : gradients)
    if (gradient.defined()) defined.push_back(gradient);
  // Like torch.amp.GradScaler, the reciprocal is computed in fp64, so that every scale has the same inverse.
  if (!defined.empty())
    at::_amp_foreach_non_finite_check_and_unscale_(defined, found_inf,
                                                   scale_.to(at::kDouble).reciprocal_().to(at::kFloat));
  return found_inf;
}

void LossScaler::update(const at::Tensor& found_inf) {
  if (!is_active()) return;
  const at::NoGradGuard no_grad;
  num_overflows_.add_(found_inf.to(at::kLong));
  if (const DynamicScalingConfig* dynamic = config_.loss_scaling.get_if<DynamicScalingConfig>())
    at::_amp_update_scale_(scale_, growth_, found_inf, dynamic->growth_factor, dynamic->backoff_factor,
                           dynamic->growth_interval);
}

double LossScaler::current_scale() const {
  return is_active() ? scale_.item<double>() : 1;
}

std::int64_t LossScaler::num_overflows() const {
  return is_active() ? num_overflows_.item<std::int64_t>() : 0;
}

void LossScaler::visit_state(runtime::State& state) {
  if (!is_active()) return;
  state.tensor("scale", scale_);
  state.tensor("growth", growth_);
  state.tensor("num_overflows", num_overflows_);
}

}  // namespace trainctl::amp
