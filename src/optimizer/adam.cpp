#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/maximum.h>

#include <cmath>

#include "optimizer/rule.h"

namespace trainctl::optimizer {
namespace {

enum class DecayMode { in_gradient, decoupled };

/// The rules of torch.optim.Adam and AdamW, which differ in the place of the weight decay.
class Adam final : public Optimizer {
 public:
  Adam(AdamConfig config, DecayMode decay, ParameterGroups groups)
      : config_(config), decay_(decay), groups_(std::move(groups)) {
    for (const ParameterGroup& group : groups_) {
      slots_.push_back({.exp_avg = zeros_like(group),
                        .exp_avg_sq = zeros_like(group),
                        .max_exp_avg_sq = config_.amsgrad ? zeros_like(group) : std::vector<at::Tensor>{},
                        .steps = StepCounts(group)});
    }
  }

  void step(double lr, const at::Tensor& found_inf) override {
    const at::NoGradGuard no_grad;
    const auto fused = [&](auto&&... arguments) {
      if (decay_ == DecayMode::decoupled)
        at::_fused_adamw_(arguments...);
      else
        at::_fused_adam_(arguments...);
    };
    if (!config_.fused && overflowed(found_inf)) return;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Active active = active_of(groups_[i]);
      if (active.empty()) continue;
      Slots& slots = slots_[i];
      const double rate = lr * groups_[i].lr_scale;
      const at::Tensor flag = beside(active, found_inf);
      slots.steps.advance(active, flag);
      if (!config_.fused) {
        update_by_operators(active, slots, rate, groups_[i].weight_decay);
        continue;
      }
      fused(in_memory(active.parameters), in_memory(active.gradients), in_memory(active.pick(slots.exp_avg)),
            in_memory(active.pick(slots.exp_avg_sq)), in_memory(active.pick(slots.max_exp_avg_sq)),
            active.pick(slots.steps.tensors()), rate, config_.beta1, config_.beta2, groups_[i].weight_decay,
            config_.eps, config_.amsgrad, /*maximize=*/false, std::nullopt,
            flag.defined() ? std::optional(flag) : std::nullopt);
    }
  }

  void visit_state(runtime::State& state) override {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      visit_slot(state, "exp_avg", groups_[i], slots_[i].exp_avg);
      visit_slot(state, "exp_avg_sq", groups_[i], slots_[i].exp_avg_sq);
      visit_slot(state, "max_exp_avg_sq", groups_[i], slots_[i].max_exp_avg_sq);
      slots_[i].steps.visit_state(state, groups_[i]);
    }
  }

 private:
  struct Slots {
    std::vector<at::Tensor> exp_avg;
    std::vector<at::Tensor> exp_avg_sq;
    std::vector<at::Tensor> max_exp_avg_sq;  // amsgrad only
    StepCounts steps;
  };

  /// Updates parameter by parameter, as torch.optim does without `foreach` and `fused`.
  void update_by_operators(const Active& active, const Slots& slots, double lr, double weight_decay) const {
    for (std::size_t i = 0; i < active.indices.size(); ++i) {
      const std::size_t index = active.indices[i];
      at::Tensor parameter = active.parameters[i];
      at::Tensor gradient = active.gradients[i];
      at::Tensor average = slots.exp_avg[index];
      at::Tensor square = slots.exp_avg_sq[index];
      const double step = slots.steps.tensors()[index].item<float>();
      if (weight_decay != 0 && decay_ == DecayMode::decoupled) parameter.mul_(1 - lr * weight_decay);
      if (weight_decay != 0 && decay_ == DecayMode::in_gradient) gradient = gradient.add(parameter, weight_decay);
      average.lerp_(gradient, 1 - config_.beta1);
      square.mul_(config_.beta2).addcmul_(gradient, gradient, 1 - config_.beta2);
      at::Tensor divisor = square;
      if (config_.amsgrad) {
        at::Tensor largest = slots.max_exp_avg_sq[index];
        at::maximum_out(largest, largest, square);
        divisor = largest;
      }
      divisor = divisor.sqrt().div_(std::sqrt(1 - std::pow(config_.beta2, step))).add_(config_.eps);
      parameter.addcdiv_(average, divisor, -lr / (1 - std::pow(config_.beta1, step)));
    }
  }

  AdamConfig config_;
  DecayMode decay_;
  ParameterGroups groups_;
  std::vector<Slots> slots_;  // one for each group
};

}  // namespace

std::unique_ptr<Optimizer> build(const AdamConfig& config, ParameterGroups groups) {
  return std::make_unique<Adam>(config, DecayMode::in_gradient, std::move(groups));
}

std::unique_ptr<Optimizer> build(const AdamWConfig& config, ParameterGroups groups) {
  const AdamConfig same{.beta1 = config.beta1,
                        .beta2 = config.beta2,
                        .eps = config.eps,
                        .amsgrad = config.amsgrad,
                        .fused = config.fused};
  return std::make_unique<Adam>(same, DecayMode::decoupled, std::move(groups));
}

}  // namespace trainctl::optimizer
