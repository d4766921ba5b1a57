#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "optimizer/rule.h"

namespace trainctl::optimizer {
namespace {

/// The rule of AdamWScheduleFree of the package schedulefree (https://arxiv.org/abs/2405.15682). Of the iterates z and
/// their average x, the parameters are y = (1 - beta1) z + beta1 x while they are trained, and x in between. Steps are
/// counted once for all parameters, as the package counts them.
class ScheduleFree final : public Optimizer {
 public:
  ScheduleFree(const ScheduleFreeConfig& config, ParameterGroups groups) : config_(config), groups_(std::move(groups)) {
    const at::NoGradGuard no_grad;
    for (const ParameterGroup& group : groups_)
      slots_.push_back({.z = copies_of(group), .exp_avg_sq = zeros_like(group), .y = {}});
  }

  void step(double lr, const at::Tensor& found_inf) override {
    core::ensure(!is_eval_, "the averages are in the model's place");
    if (overflowed(found_inf)) return;
    const at::NoGradGuard no_grad;
    // Groups differ in lr_scale, a factor that weight / weight_sum doesn't depend on.
    max_lr_ = std::max(max_lr_, lr);
    const double weight =
        std::pow(static_cast<double>(num_steps_ + 1), config_.r) * std::pow(max_lr_, config_.weight_lr_power);
    weight_sum_ += weight;
    const double share = weight_sum_ > 0 ? weight / weight_sum_ : 0;  // of z in the new average
    ++num_steps_;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Active active = active_of(groups_[i]);
      const std::vector<at::Tensor> z = active.pick(slots_[i].z);
      const std::vector<at::Tensor> squares = active.pick(slots_[i].exp_avg_sq);
      for (const Batch& batch : batches_of(active))
        update(lr * groups_[i].lr_scale, share, groups_[i].weight_decay,
               {.y = batch.of(active.parameters),
                .gradients = batch.of(active.gradients),
                .z = batch.of(z),
                .squares = batch.of(squares)});
    }
  }

  /// The trained weights are kept beside the averages: computing them back from x would round them.
  bool eval() override {
    if (is_eval_) return false;
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      slots_[i].y = copies_of(groups_[i]);
      for (std::size_t j = 0; j < slots_[i].y.size(); ++j)
        groups_[i].parameters[j].lerp_(slots_[i].z[j], 1 - 1 / config_.beta1);
    }
    return is_eval_ = true;
  }

  void train() override {
    if (!is_eval_) return;
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      for (std::size_t j = 0; j < slots_[i].y.size(); ++j) {
        if (has_new_beta1_)
          groups_[i].parameters[j].lerp_(slots_[i].z[j], 1 - config_.beta1);
        else
          groups_[i].parameters[j].copy_(slots_[i].y[j]);
      }
      slots_[i].y.clear();
    }
    is_eval_ = has_new_beta1_ = false;
  }

  void visit_state(runtime::State& state) override {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      visit_slot(state, "z", groups_[i], slots_[i].z, FirstValues::of_parameter);
      visit_slot(state, "exp_avg_sq", groups_[i], slots_[i].exp_avg_sq);
      visit_slot(state, "y", groups_[i], slots_[i].y, FirstValues::of_parameter);
    }
    if (groups_.empty()) return;
    state.integer("num_steps", num_steps_);
    state.number("max_lr", max_lr_);
    state.number("weight_sum", weight_sum_);
    double saved_beta1 = config_.beta1;
    if (state.has("beta1")) state.number("beta1", saved_beta1);  // older checkpoints lack it
    has_new_beta1_ = saved_beta1 != config_.beta1;
  }

 private:
  struct Slots {
    std::vector<at::Tensor> z;
    std::vector<at::Tensor> exp_avg_sq;
    std::vector<at::Tensor> y;  // while the averages are in the model's place
  };
  /// What a step changes of some parameters.
  struct Lists {
    at::TensorList y;
    at::TensorList gradients;
    at::TensorList z;
    at::TensorList squares;
  };

  static std::vector<at::Tensor> copies_of(const ParameterGroup& group) {
    std::vector<at::Tensor> copies;
    for (const at::Tensor& parameter : group.parameters) copies.push_back(parameter.detach().clone());
    return copies;
  }

  void update(double lr, double share, double weight_decay, const Lists& lists) const {
    at::_foreach_mul_(lists.squares, config_.beta2);
    at::_foreach_addcmul_(lists.squares, lists.gradients, lists.gradients, 1 - config_.beta2);
    const std::vector<at::Tensor> divisors =
        at::_foreach_div(lists.squares, 1 - std::pow(config_.beta2, static_cast<double>(num_steps_)));
    at::_foreach_sqrt_(divisors);
    at::_foreach_add_(divisors, config_.eps);
    const std::vector<at::Tensor> updates = at::_foreach_div(lists.gradients, divisors);
    if (weight_decay != 0) at::_foreach_add_(updates, lists.y, weight_decay);
    at::_foreach_lerp_(lists.y, lists.z, share);
    at::_foreach_add_(lists.y, updates, lr * (config_.beta1 * (1 - share) - 1));
    at::_foreach_add_(lists.z, updates, -lr);
  }

  ScheduleFreeConfig config_;
  ParameterGroups groups_;
  std::vector<Slots> slots_;  // one for each group
  std::int64_t num_steps_ = 0;
  double max_lr_ = 0;
  double weight_sum_ = 0;
  bool is_eval_ = false;
  bool has_new_beta1_ = false;  // the saved y is of another beta1, and is made anew of z and x
};

}  // namespace

std::unique_ptr<Optimizer> build(const ScheduleFreeConfig& config, ParameterGroups groups) {
  return std::make_unique<ScheduleFree>(config, std::move(groups));
}

}  // namespace trainctl::optimizer
