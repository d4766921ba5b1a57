#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sign.h>

#include "optimizer/rule.h"

namespace trainctl::optimizer {
namespace {

/// The rule of Lion (https://arxiv.org/abs/2302.06675, algorithm 2), as timm.optim.Lion has it.
class Lion final : public Optimizer {
 public:
  Lion(const LionConfig& config, ParameterGroups groups) : config_(config), groups_(std::move(groups)) {
    for (const ParameterGroup& group : groups_) averages_.push_back(zeros_like(group));
  }

  void step(double lr, const at::Tensor& found_inf) override {
    if (overflowed(found_inf)) return;
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Active active = active_of(groups_[i]);
      const std::vector<at::Tensor> averages = active.pick(averages_[i]);
      const double rate = lr * groups_[i].lr_scale;
      for (const Batch& batch : batches_of(active)) {
        const at::TensorList parameters = batch.of(active.parameters);
        const at::TensorList gradients = batch.of(active.gradients);
        const at::TensorList average = batch.of(averages);
        const std::vector<at::Tensor> updates = at::_foreach_lerp(average, gradients, 1 - config_.beta1);
        at::_foreach_sign_(updates);
        if (groups_[i].weight_decay != 0) at::_foreach_mul_(parameters, 1 - rate * groups_[i].weight_decay);
        at::_foreach_add_(parameters, updates, -rate);
        at::_foreach_lerp_(average, gradients, 1 - config_.beta2);
      }
    }
  }

  void visit_state(runtime::State& state) override {
    for (std::size_t i = 0; i < groups_.size(); ++i) visit_slot(state, "exp_avg", groups_[i], averages_[i]);
  }

 private:
  LionConfig config_;
  ParameterGroups groups_;
  std::vector<std::vector<at::Tensor>> averages_;  // one list for each group
};

}  // namespace

std::unique_ptr<Optimizer> build(const LionConfig& config, ParameterGroups groups) {
  return std::make_unique<Lion>(config, std::move(groups));
}

}  // namespace trainctl::optimizer
