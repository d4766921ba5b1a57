#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/empty_like.h>

#include "core/error.h"
#include "optimizer/optimizer.h"
#include "runtime/device.h"

namespace trainctl::optimizer {

Ema::Ema(const EmaConfig& config, std::vector<OptimizedParameter> parameters) : config_(config) {
  const at::NoGradGuard no_grad;
  for (OptimizedParameter& parameter : parameters) {
    names_.push_back(std::move(parameter.name));
    averages_.push_back(parameter.tensor.detach().clone());
    weights_.push_back(std::move(parameter.tensor));
  }
}

void Ema::update(std::int64_t step) {
  core::ensure(!swapped_, "the averages are in the model's place");
  if (!is_due(step)) return;
  const at::NoGradGuard no_grad;
  if (num_averaged_++ == 0)
    copy_weights();
  else
    lerp_weights();
}

std::optional<FollowingAverages> Ema::begin_update(std::int64_t step) {
  core::ensure(!swapped_, "the averages are in the model's place");
  if (!is_due(step) || num_averaged_ == 0) return std::nullopt;
  ++num_averaged_;
  return FollowingAverages{.parameters = weights_, .averages = averages_, .share = 1 - config_.decay};
}

void Ema::swap() {
  const at::NoGradGuard no_grad;
  if (!swapped_ && num_averaged_ == 0) copy_weights();
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const at::Tensor current = weights_[i].detach().clone();
    weights_[i].copy_(averages_[i]);
    averages_[i].copy_(current);
  }
  swapped_ = !swapped_;
}

void Ema::visit_state(runtime::State& state) {
  core::ensure(!swapped_, "the averages are in the model's place");
  const at::NoGradGuard no_grad;
  if (num_averaged_ == 0) copy_weights();
  for (std::size_t i = 0; i < averages_.size(); ++i) state.slot({"average", names_[i], weights_[i]}, averages_[i]);
  state.integer("num_averaged", num_averaged_);
}

bool Ema::is_due(std::int64_t step) {
  if (step < config_.start) num_averaged_ = 0;  // a resumed run may have begun with an earlier start
  return step >= config_.start && (step - config_.start) % config_.every == 0;
}

void Ema::lerp_weights() {
  const std::vector<std::vector<at::Tensor>> averages = runtime::by_device(averages_);
  const std::vector<std::vector<at::Tensor>> weights = runtime::by_device(weights_);
  for (std::size_t i = 0; i < averages.size(); ++i) at::_foreach_lerp_(averages[i], weights[i], 1 - config_.decay);
}

void Ema::copy_weights() {
  for (std::size_t i = 0; i < weights_.size(); ++i) averages_[i].copy_(weights_[i]);
}

}  // namespace trainctl::optimizer
