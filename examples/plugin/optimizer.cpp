// `optimizer: {kind: signum, lr: 1e-3}`: the sign of the gradient's average (https://arxiv.org/abs/1802.04434).
#include <ATen/core/grad_mode.h>
#include <ATen/ops/sign.h>

#include "example.h"
#include "optimizer/rule.h"

namespace example {
namespace {

using namespace trainctl;

struct SignumConfig {
  static constexpr std::string_view kind = "signum";
  static constexpr optimizer::OptimizerTraits traits{.is_elementwise = true,
                                                     .updates_shards = true,
                                                     .normalizes_elements = true,
                                                     .averages_weights = false,
                                                     .reads_overflow_flag = true,
                                                     .starter_lr = 1e-3};
  double momentum = 0.9;

  static constexpr auto fields() {
    return config::Fields{
        config::field<&SignumConfig::momentum>("Decay of the gradient's average.", config::below_one)};
  }
  optimizer::OptimizerFacts facts() const { return {.could_fuse = false}; }
};

class Signum final : public optimizer::Optimizer {
 public:
  Signum(double momentum, optimizer::ParameterGroups groups) : momentum_(momentum), groups_(std::move(groups)) {
    for (const optimizer::ParameterGroup& group : groups_) averages_.push_back(optimizer::zeros_like(group));
  }

  void step(double lr, const at::Tensor& found_inf) override {
    if (optimizer::overflowed(found_inf)) return;
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const optimizer::Active active = optimizer::active_of(groups_[i]);
      const std::vector<at::Tensor> averages = active.pick(averages_[i]);
      const double rate = lr * groups_[i].lr_scale;
      for (std::size_t p = 0; p < active.parameters.size(); ++p) {
        averages[p].lerp_(active.gradients[p], 1 - momentum_);
        if (groups_[i].weight_decay != 0) active.parameters[p].mul_(1 - rate * groups_[i].weight_decay);
        active.parameters[p].sub_(at::sign(averages[p]), rate);
      }
    }
  }

  void visit_state(runtime::State& state) override {
    for (std::size_t i = 0; i < groups_.size(); ++i) optimizer::visit_slot(state, "momentum", groups_[i], averages_[i]);
  }

 private:
  double momentum_;
  optimizer::ParameterGroups groups_;
  std::vector<std::vector<at::Tensor>> averages_;  // one list for each group
};

std::unique_ptr<optimizer::Optimizer> build(const SignumConfig& config, optimizer::ParameterGroups groups) {
  return std::make_unique<Signum>(config.momentum, std::move(groups));
}

}  // namespace

void add_optimizer(plugin::Registry& registry) {
  registry.add_optimizer<SignumConfig>();
}

}  // namespace example
