#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/zeros.h>

#include "optimizer/rule.h"

namespace trainctl::optimizer {
namespace {

/// The rule of torch.optim.SGD, whose first momentum is the gradient itself, without dampening. Without dampening, a
/// buffer of zeros gives the same. With it the rule must know the first update that was not skipped, and `started`
/// records that one.
class Sgd final : public Optimizer {
 public:
  Sgd(const SgdConfig& config, ParameterGroups groups) : config_(config), groups_(std::move(groups)) {
    for (const ParameterGroup& group : groups_)
      momenta_.push_back(config_.momentum > 0 ? zeros_like(group) : std::vector<at::Tensor>{});
    if (config_.momentum > 0 && config_.dampening > 0 && !groups_.empty())
      started_ = at::zeros({}, groups_.front().parameters.front().options().dtype(at::kFloat).requires_grad(false));
  }

  void step(double lr, const at::Tensor& found_inf) override {
    const at::NoGradGuard no_grad;
    if (!started_.defined()) return update(lr, config_.dampening, found_inf);
    // Both updates are issued and one of them skips itself, so that the host needn't know which.
    const at::Tensor skip = found_inf.defined() ? found_inf.reshape({}) : at::zeros({}, started_.options());
    const at::Tensor go = at::rsub(skip, 1);
    const at::Tensor was_started = started_.clone();
    update(lr, 0, at::maximum(skip, was_started));
    update(lr, config_.dampening, at::maximum(skip, at::rsub(was_started, 1)));
    started_.copy_(at::maximum(was_started, go));
  }

  bool reads_device_lr() const override { return config_.fused; }
  void read_lr_from(const at::Tensor& lr) override { device_lr_ = lr; }

  void visit_state(runtime::State& state) override {
    for (std::size_t i = 0; i < groups_.size(); ++i) visit_slot(state, "momentum", groups_[i], momenta_[i]);
    if (started_.defined()) state.tensor("started", started_);
  }

 private:
  void update(double lr, double dampening, const at::Tensor& found_inf) {
    if (!config_.fused && overflowed(found_inf)) return;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Active active = active_of(groups_[i]);
      if (active.empty()) continue;
      if (!config_.fused)
        update_by_operators(active, i, lr * groups_[i].lr_scale, dampening);
      else if (device_lr_.defined())
        update_at_once(active, i, fused_lr(device_lr_, groups_[i]), dampening, beside(active, found_inf));
      else
        update_at_once(active, i, lr * groups_[i].lr_scale, dampening, beside(active, found_inf));
    }
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
  at::Tensor device_lr_;  // undefined: updates take the number
  at::Tensor started_;    // float []: 1 after the first update; only with dampening
};

}  // namespace

std::unique_ptr<Optimizer> build(const SgdConfig& config, ParameterGroups groups) {
  return std::make_unique<Sgd>(config, std::move(groups));
}

}  // namespace trainctl::optimizer
