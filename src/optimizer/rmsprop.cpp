#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>

#include "optimizer/rule.h"

namespace trainctl::optimizer {
namespace {

/// The rule of torch.optim.RMSprop.
class Rmsprop final : public Optimizer {
 public:
  Rmsprop(const RmspropConfig& config, ParameterGroups groups) : config_(config), groups_(std::move(groups)) {
    const std::vector<at::Tensor> none;
    for (const ParameterGroup& group : groups_) {
      slots_.push_back({.square_avg = zeros_like(group),
                        .grad_avg = config_.centered ? zeros_like(group) : none,
                        .momentum = config_.momentum > 0 ? zeros_like(group) : none});
    }
  }

  void step(double lr, const at::Tensor& found_inf) override {
    if (overflowed(found_inf)) return;
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Active active = active_of(groups_[i]);
      const Slots chosen{.square_avg = active.pick(slots_[i].square_avg),
                         .grad_avg = active.pick(slots_[i].grad_avg),
                         .momentum = active.pick(slots_[i].momentum)};
      for (const Batch& batch : batches_of(active))
        update(lr * groups_[i].lr_scale, groups_[i].weight_decay, active, chosen, batch);
    }
  }

  void visit_state(runtime::State& state) override {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      visit_slot(state, "square_avg", groups_[i], slots_[i].square_avg);
      visit_slot(state, "grad_avg", groups_[i], slots_[i].grad_avg);
      visit_slot(state, "normalized_momentum", groups_[i], slots_[i].momentum);
    }
  }

 private:
  struct Slots {
    std::vector<at::Tensor> square_avg;
    std::vector<at::Tensor> grad_avg;  // centered only
    std::vector<at::Tensor> momentum;  // with momentum only
  };

  void update(double lr, double weight_decay, const Active& active, const Slots& slots, const Batch& batch) const {
    const at::TensorList parameters = batch.of(active.parameters);
    const at::TensorList square_avg = batch.of(slots.square_avg);
    at::TensorList gradients = batch.of(active.gradients);
    std::vector<at::Tensor> with_decay;
    if (weight_decay != 0) {
      with_decay = at::_foreach_add(gradients, parameters, weight_decay);
      gradients = with_decay;
    }
    at::_foreach_mul_(square_avg, config_.alpha);
    at::_foreach_addcmul_(square_avg, gradients, gradients, 1 - config_.alpha);
    std::vector<at::Tensor> divisor;
    if (config_.centered) {
      const at::TensorList grad_avg = batch.of(slots.grad_avg);
      at::_foreach_lerp_(grad_avg, gradients, 1 - config_.alpha);
      divisor = at::_foreach_addcmul(square_avg, grad_avg, grad_avg, -1);
      at::_foreach_sqrt_(divisor);
    } else {
      divisor = at::_foreach_sqrt(square_avg);
    }
    at::_foreach_add_(divisor, config_.eps);
    if (config_.momentum > 0) {
      const at::TensorList momentum = batch.of(slots.momentum);
      at::_foreach_mul_(momentum, config_.momentum);
      at::_foreach_addcdiv_(momentum, gradients, divisor);
      at::_foreach_add_(parameters, momentum, -lr);
    } else {
      at::_foreach_addcdiv_(parameters, gradients, divisor, -lr);
    }
  }

  RmspropConfig config_;
  ParameterGroups groups_;
  std::vector<Slots> slots_;  // one for each group
};

}  // namespace

std::unique_ptr<Optimizer> build(const RmspropConfig& config, ParameterGroups groups) {
  return std::make_unique<Rmsprop>(config, std::move(groups));
}

}  // namespace trainctl::optimizer
