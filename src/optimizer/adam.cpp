#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/maximum.h>

#include <cmath>
#include <unordered_map>

#include "kernels/adam.h"
#include "optimizer/rule.h"

namespace trainctl::optimizer {
namespace {

enum class DecayMode { in_gradient, decoupled };

/// The averages that follow an update, until they have been moved.
class Followers {
 public:
  explicit Followers(const FollowingAverages* averages) : averages_(averages) {
    if (averages_ == nullptr) return;
    for (std::size_t i = 0; i < averages_->parameters.size(); ++i)
      left_.emplace(averages_->parameters[i].unsafeGetTensorImpl(), i);
  }

  double share() const { return averages_ == nullptr ? 0 : averages_->share; }

  /// Returns the averages of all these parameters for the update to move; none, if one of them has none.
  std::vector<at::Tensor> take(const std::vector<at::Tensor>& parameters) {
    std::vector<at::Tensor> taken;
    for (const at::Tensor& parameter : parameters) {
      const auto found = left_.find(parameter.unsafeGetTensorImpl());
      if (found == left_.end()) return {};
      const at::Tensor& average = averages_->averages[found->second];
      if (average.strides() != parameter.strides()) return {};
      taken.push_back(average);
    }
    for (const at::Tensor& parameter : parameters) left_.erase(parameter.unsafeGetTensorImpl());
    return taken;
  }

  /// Moves those that no update took.
  void move_the_rest() const {
    for (const auto& [parameter, i] : left_) {
      at::Tensor average = averages_->averages[i];
      average.lerp_(averages_->parameters[i], averages_->share);
    }
  }

 private:
  const FollowingAverages* averages_;
  std::unordered_map<const c10::TensorImpl*, std::size_t> left_;
};

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
    if (config_.fused) return step_on_the_way(lr, found_inf, {});
    if (overflowed(found_inf)) return;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Active active = active_of(groups_[i]);
      if (active.empty()) continue;
      slots_[i].steps.advance(active, {});
      update_by_operators(active, slots_[i], lr * groups_[i].lr_scale, groups_[i].weight_decay);
    }
  }

  bool works_on_the_way() const override { return config_.fused; }
  void step_on_the_way(double lr, const at::Tensor& found_inf, const OnTheWay& more) override {
    const at::NoGradGuard no_grad;
    Followers followers(more.averages);
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Active active = active_of(groups_[i]);
      if (active.empty()) continue;
      const at::Tensor flag = beside(active, found_inf);
      slots_[i].steps.advance(active, flag);
      update(active, i, lr, flag, beside(active, more.factor), followers);
    }
    followers.move_the_rest();
  }

  bool reads_device_lr() const override { return config_.fused; }
  void read_lr_from(const at::Tensor& lr) override { device_lr_ = lr; }

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

  /// Updates the active parameters of a group in one pass; those of fp64 by LibTorch's operator.
  void update(const Active& active, std::size_t group, double lr, const at::Tensor& flag, const at::Tensor& factor,
              Followers& followers) const {
    const Slots& slots = slots_[group];
    const double weight_decay = groups_[group].weight_decay;
    kernels::AdamLists lists{.parameters = active.parameters,
                             .gradients = active.gradients,
                             .averages = active.pick(slots.exp_avg),
                             .squares = active.pick(slots.exp_avg_sq),
                             .largest = active.pick(slots.max_exp_avg_sq),
                             .steps = active.pick(slots.steps.tensors())};
    if (kernels::has_adam_kernel(lists)) {
      lists.smoothed = followers.take(active.parameters);
      lists.smoothing = followers.share();
      const kernels::AdamRule rule{.lr = device_lr_.defined() ? groups_[group].lr_scale : lr * groups_[group].lr_scale,
                                   .device_lr = beside(active, device_lr_),
                                   .beta1 = config_.beta1,
                                   .beta2 = config_.beta2,
                                   .epsilon = config_.eps,
                                   .weight_decay = weight_decay,
                                   .is_decoupled = decay_ == DecayMode::decoupled};
      return kernels::update_by_adam(lists, rule, factor, flag);
    }
    if (factor.defined()) scale(active.gradients, factor);
    const auto fused = [&](const auto& rate) {
      const auto call = [&](const auto& update) {
        update(in_memory(lists.parameters), in_memory(lists.gradients), in_memory(lists.averages),
               in_memory(lists.squares), in_memory(lists.largest), lists.steps, rate, config_.beta1, config_.beta2,
               weight_decay, config_.eps, config_.amsgrad, /*maximize=*/false, std::nullopt,
               flag.defined() ? std::optional(flag) : std::nullopt);
      };
      if (decay_ == DecayMode::decoupled)
        call([](const auto&... arguments) { at::_fused_adamw_(arguments...); });
      else
        call([](const auto&... arguments) { at::_fused_adam_(arguments...); });
    };
    if (device_lr_.defined())
      fused(fused_lr(device_lr_, groups_[group]));
    else
      fused(lr * groups_[group].lr_scale);
  }

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
  at::Tensor device_lr_;      // undefined: updates take the number
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
