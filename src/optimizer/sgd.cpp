#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/zeros_like.h>

#include "optimizer/rule.h"

namespace trainctl::optimizer {
namespace {

/// The rule of torch.optim.SGD, whose first momentum is the gradient itself, without dampening. Without dampening, a
/// buffer of zeros gives the same. With it the rule must know each parameter's first update that was not skipped.
class Sgd final : public Optimizer {
 public:
  Sgd(const SgdConfig& config, ParameterGroups groups) : config_(config), groups_(std::move(groups)) {
    for (const ParameterGroup& group : groups_) {
      momenta_.push_back(config_.momentum > 0 ? zeros_like(group) : std::vector<at::Tensor>{});
      if (config_.momentum > 0 && config_.dampening > 0) steps_.emplace_back(group);
    }
  }

  void step(double lr, const at::Tensor& found_inf) override {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Active active = active_of(groups_[i]);
      if (active.empty()) continue;
      const at::Tensor flag = beside(active, found_inf);
      if (steps_.empty())
        update(active, i, lr, config_.dampening, flag);
      else
        update_dampened(active, i, lr, flag);
    }
  }

  bool reads_device_lr() const override { return config_.fused; }
  void read_lr_from(const at::Tensor& lr) override { device_lr_ = lr; }

  void visit_state(runtime::State& state) override {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      visit_slot(state, "momentum", groups_[i], momenta_[i]);
      if (!steps_.empty()) steps_[i].visit_state(state, groups_[i]);
    }
  }

 private:
  void update(const Active& active, std::size_t group, double lr, double dampening, const at::Tensor& flag) const {
    if (!config_.fused) {
      if (!overflowed(flag)) update_by_operators(active, group, lr * groups_[group].lr_scale, dampening);
    } else if (device_lr_.defined()) {
      update_at_once(active, group, fused_lr(device_lr_, groups_[group]), dampening, flag);
    } else {
      update_at_once(active, group, lr * groups_[group].lr_scale, dampening, flag);
    }
  }

  /// Issues a first and a later update of each parameter. One of them skips itself: the host needn't know which.
  void update_dampened(const Active& active, std::size_t group, double lr, const at::Tensor& flag) {
    for (std::size_t i = 0; i < active.indices.size(); ++i) {
      const Active one{
          .indices = {active.indices[i]}, .parameters = {active.parameters[i]}, .gradients = {active.gradients[i]}};
      const at::Tensor had_one = steps_[group].tensors()[active.indices[i]].gt(0).to(at::kFloat);
      const at::Tensor skip = flag.defined() ? flag.reshape({}) : at::zeros_like(had_one);
      update(one, group, lr, 0, at::maximum(skip, had_one));
      update(one, group, lr, config_.dampening, at::maximum(skip, at::rsub(had_one, 1)));
    }
    steps_[group].advance(active, flag);
  }

  /// `lr`: double, or float [] on the parameters' device.
  template <class LearningRate>
  void update_at_once(const Active& active, std::size_t group, const LearningRate& lr, double dampening,
                      const at::Tensor& flag) const {
    at::_fused_sgd_(in_memory(active.parameters), in_memory(active.gradients), in_memory(active.pick(momenta_[group])),
                    groups_[group].weight_decay, config_.momentum, lr, dampening, config_.nesterov, /*maximize=*/false,
                    /*is_first_step=*/false, std::nullopt, flag.defined() ? std::optional(flag) : std::nullopt);
  }

  /// Updates parameter by parameter, as torch.optim does without `foreach` and `fused`.
  void update_by_operators(const Active& active, std::size_t group, double lr, double dampening) const {
    const double decay = groups_[group].weight_decay;
    const std::vector<at::Tensor> momenta = active.pick(momenta_[group]);
    for (std::size_t i = 0; i < active.indices.size(); ++i) {
      at::Tensor parameter = active.parameters[i];
      at::Tensor gradient = active.gradients[i];
      if (decay != 0) gradient = gradient.add(parameter, decay);
      if (!momenta.empty()) {
        const at::Tensor& momentum = momenta[i];
        momentum.mul_(config_.momentum).add_(gradient, 1 - dampening);
        gradient = config_.nesterov ? gradient.add(momentum, config_.momentum) : momentum;
      }
      parameter.add_(gradient, -lr);
    }
  }

  SgdConfig config_;
  ParameterGroups groups_;
  std::vector<std::vector<at::Tensor>> momenta_;
  at::Tensor device_lr_;           // undefined: updates take the number
  std::vector<StepCounts> steps_;  // one for each group; only with dampening
};

}  // namespace

std::unique_ptr<Optimizer> build(const SgdConfig& config, ParameterGroups groups) {
  return std::make_unique<Sgd>(config, std::move(groups));
}

}  // namespace trainctl::optimizer
