#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "optimizer/rule.h"

namespace trainctl::optimizer {
namespace {

/// The rule of LAMB (https://arxiv.org/abs/1904.00962, algorithm 2) as NVIDIA's FusedLAMB and timm.optim.Lamb define
/// it. Moments are bias-corrected, and decay is part of the update. The trust ratio ||w|| / ||update||, 1 if either is
/// 0, is for the decayed group alone. Two things differ: the ratio's ceiling is max_trust_ratio (theirs: none, or 1),
/// and `clip_norm` clips gradients, not this rule.
class Lamb final : public Optimizer {
 public:
  Lamb(const LambConfig& config, ParameterGroups groups) : config_(config), groups_(std::move(groups)) {
    for (const ParameterGroup& group : groups_)
      slots_.push_back({.exp_avg = zeros_like(group), .exp_avg_sq = zeros_like(group), .steps = HostStepCounts(group)});
  }

  void step(double lr, const at::Tensor& found_inf) override {
    if (overflowed(found_inf)) return;
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Active active = active_of(groups_[i]);
      slots_[i].steps.advance(active);
      const std::vector<at::Tensor> exp_avg = active.pick(slots_[i].exp_avg);
      const std::vector<at::Tensor> exp_avg_sq = active.pick(slots_[i].exp_avg_sq);
      for (const Batch& batch : batches_of(active)) {
        const std::vector<at::Tensor> updates = adam_updates(slots_[i].steps, active, batch, exp_avg, exp_avg_sq);
        const at::TensorList parameters = batch.of(active.parameters);
        if (groups_[i].weight_decay != 0) at::_foreach_add_(updates, parameters, groups_[i].weight_decay);
        if (groups_[i].kind == GroupKind::decayed) at::_foreach_mul_(updates, trust_ratios(parameters, updates));
        at::_foreach_add_(parameters, updates, -lr * groups_[i].lr_scale);
      }
    }
  }

  void visit_state(runtime::State& state) override {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      visit_slot(state, "exp_avg", groups_[i], slots_[i].exp_avg);
      visit_slot(state, "exp_avg_sq", groups_[i], slots_[i].exp_avg_sq);
      slots_[i].steps.visit_state(state, groups_[i]);
    }
  }

 private:
  struct Slots {
    std::vector<at::Tensor> exp_avg;
    std::vector<at::Tensor> exp_avg_sq;
    HostStepCounts steps;
  };

  std::vector<at::Tensor> adam_updates(const HostStepCounts& steps, const Active& active, const Batch& batch,
                                       const std::vector<at::Tensor>& exp_avg,
                                       const std::vector<at::Tensor>& exp_avg_sq) const {
    const at::TensorList gradients = batch.of(active.gradients);
    const at::TensorList first = batch.of(exp_avg);
    const at::TensorList second = batch.of(exp_avg_sq);
    at::_foreach_lerp_(first, gradients, 1 - config_.beta1);
    at::_foreach_mul_(second, config_.beta2);
    at::_foreach_addcmul_(second, gradients, gradients, 1 - config_.beta2);

    std::vector<at::Scalar> first_correction, second_correction;
    for (std::size_t i = batch.first; i < batch.first + batch.count; ++i) {
      const double step = steps[active.indices[i]];
      first_correction.emplace_back(1 - std::pow(config_.beta1, step));
      second_correction.emplace_back(std::sqrt(1 - std::pow(config_.beta2, step)));
    }
    std::vector<at::Tensor> divisors = at::_foreach_sqrt(second);
    at::_foreach_div_(divisors, second_correction);
    at::_foreach_add_(divisors, config_.eps);
    at::_foreach_mul_(divisors, first_correction);
    return at::_foreach_div(first, divisors);
  }

  /// Returns a scalar tensor per update.
  std::vector<at::Tensor> trust_ratios(at::TensorList parameters, at::TensorList updates) const {
    const at::Tensor weight_norms = at::stack(at::_foreach_norm(parameters));
    const at::Tensor update_norms = at::stack(at::_foreach_norm(updates));
    const at::Tensor both = weight_norms.gt(0).logical_and_(update_norms.gt(0));
    const at::Tensor ratios = weight_norms.div(update_norms).clamp_max_(config_.max_trust_ratio);
    return at::where(both, ratios, at::ones_like(ratios)).unbind();
  }

  LambConfig config_;
  ParameterGroups groups_;
  std::vector<Slots> slots_;  // one for each group
};

}  // namespace

std::unique_ptr<Optimizer> build(const LambConfig& config, ParameterGroups groups) {
  return std::make_unique<Lamb>(config, std::move(groups));
}

}  // namespace trainctl::optimizer
