#include <catch2/catch.hpp>

#include <cmath>
#include <map>

#include "optimizer/schedule.h"
#include "small_net.h"
#include "support/reference.h"

namespace trainctl::optimizer::training_test {
namespace {

using testing::SmallNet;

struct Case {
  OptimizerConfig config;
  at::ScalarType dtype = at::kFloat;
  std::int64_t steps = 20;
  double bound = dtype == at::kFloat ? 1e-5 : 1e-13;  // of differences of weights
};

OptimizerConfig rule(UpdateRuleConfig rule, double lr, double weight_decay) {
  OptimizerConfig config;
  config.rule = std::move(rule);
  config.lr = lr;
  config.weight_decay = weight_decay;
  return config;
}

/// Gives layers rates and a decay of their own.
OptimizerConfig with_groups(OptimizerConfig config) {
  config.layer_decay = 0.8;
  config.param_groups = {{.params = "*.weight", .lr = 0.5 * config.lr, .lr_scale = {}, .weight_decay = 0.2},
                         {.params = "conv2", .lr = {}, .lr_scale = 0.1, .weight_decay = {}},
                         {.params = "head", .lr = {}, .lr_scale = 3, .weight_decay = 0}};
  return config;
}

/// Sets the first step's rate to a tenth of the peak, and that of step 9 to the peak, as `warmup_steps=10` of
/// schedulefree.
OptimizerConfig with_warmup(OptimizerConfig config) {
  config.lr_scheduler.warmup = 9;
  config.lr_scheduler.warmup_start_factor = 0.1;
  return config;
}

/// Rules that take 50 steps, against packages.
void add_long_cases(std::map<std::string, Case>& all) {
  const auto add = [&](const std::string& name, const OptimizerConfig& config, at::ScalarType dtype, double bound) {
    all[name] = {.config = config, .dtype = dtype, .steps = 50, .bound = bound};
  };
  add("lion_weight_decay", rule(LionConfig{.beta1 = 0.8, .beta2 = 0.95}, 1e-3, 0.1), at::kDouble, 1e-12);
  const OptimizerConfig schedule_free = rule(ScheduleFreeConfig{}, 5e-3, 0);
  add("schedule_free", schedule_free, at::kFloat, 1e-5);
  add("schedule_free_double", schedule_free, at::kDouble, 1e-12);
  add("schedule_free_warmup",
      with_warmup(rule(ScheduleFreeConfig{.beta1 = 0.95, .beta2 = 0.99, .eps = 1e-6}, 1e-2, 0.1)), at::kDouble, 1e-12);
  add("schedule_free_power", with_warmup(rule(ScheduleFreeConfig{.r = 1.5, .weight_lr_power = 1}, 1e-2, 0.1)),
      at::kDouble, 1e-12);
  const OptimizerConfig muon = rule(MuonConfig{.adamw = {.lr = 3e-3}}, 0.02, 0.1);
  add("muon", muon, at::kDouble, 1e-10);
  add("muon_plain",
      rule(MuonConfig{.momentum = 0.8,
                      .nesterov = false,
                      .ns_steps = 3,
                      .adjust_lr = AdjustLr::match_rms_adamw,
                      .adamw = {.lr = 3e-3, .beta2 = 0.999, .eps = 1e-8}},
           0.01, 0),
      at::kDouble, 1e-10);
  // Until a preconditioner has its whole rank, its eigenvectors aren't unique: dims are few, and bases turn late.
  add("soap", rule(SoapConfig{.max_precond_dim = 64}, 3e-3, 0.1), at::kDouble, 1e-6);
  add("soap_all",
      rule(SoapConfig{.beta1 = 0.8,
                      .beta2 = 0.9,
                      .shampoo_beta = 0.95,
                      .eps = 1e-6,
                      .precondition_frequency = 20,
                      .max_precond_dim = 64,
                      .precondition_1d = true},
           3e-3, 0),
      at::kDouble, 1e-6);
  add("muon_package", muon, at::kDouble, 1e-6);  // that adds 1e-7 to a norm, and PyTorch takes 1e-7 at least
}

/// As in tests/reference/optimizers.py.
std::map<std::string, Case> cases() {
  std::map<std::string, Case> all;
  all["sgd"] = {rule(SgdConfig{.momentum = 0}, 0.05, 0)};
  all["sgd_momentum"] = {rule(SgdConfig{.momentum = 0.9}, 0.02, 0)};
  all["sgd_nesterov"] = {rule(SgdConfig{.momentum = 0.9, .nesterov = true}, 0.02, 0.01)};
  all["sgd_weight_decay"] = {rule(SgdConfig{.momentum = 0.9}, 0.02, 0.05)};
  all["sgd_dampening"] = {rule(SgdConfig{.momentum = 0.9, .dampening = 0.3}, 0.05, 0.01)};
  all["adam"] = {rule(AdamConfig{}, 3e-3, 0)};
  all["adam_weight_decay"] = {rule(AdamConfig{.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6}, 3e-3, 0.1)};
  all["adam_amsgrad"] = {rule(AdamConfig{.beta1 = 0.5, .beta2 = 0.7, .amsgrad = true}, 3e-3, 0.05)};
  all["adamw"] = {rule(AdamWConfig{}, 3e-3, 0.1)};
  all["adamw_amsgrad"] = {rule(AdamWConfig{.beta1 = 0.5, .beta2 = 0.7, .amsgrad = true}, 3e-3, 0.1)};
  all["adamw_decay_all"] = {rule(AdamWConfig{}, 3e-3, 0.5)};
  all["adamw_decay_all"].config.decay_bias_and_norm = true;
  all["rmsprop"] = {rule(RmspropConfig{}, 1e-3, 0)};
  all["rmsprop_momentum"] = {rule(RmspropConfig{.alpha = 0.9, .eps = 0.0316, .momentum = 0.9}, 1e-3, 1e-2)};
  all["rmsprop_centered"] = {rule(RmspropConfig{.alpha = 0.9, .eps = 1e-4, .centered = true}, 1e-3, 0)};
  all["rmsprop_all"] = {rule(RmspropConfig{.alpha = 0.9, .eps = 0.01, .momentum = 0.9, .centered = true}, 1e-3, 1e-2)};
  all["adafactor"] = {rule(AdafactorConfig{}, 1e-2, 0)};
  all["adafactor_all"] = {
      rule(AdafactorConfig{.beta2_decay = -0.7, .eps1 = 1e-6, .eps2 = 1e-2, .clip_threshold = 1.5}, 3e-2, 0.1)};
  all["lion"] = {rule(LionConfig{}, 1e-3, 0)};
  add_long_cases(all);
  all["lamb"] = {rule(LambConfig{}, 1e-2, 0.1), at::kDouble};
  all["lamb_ceiling"] = {rule(LambConfig{.beta1 = 0.8, .beta2 = 0.9, .max_trust_ratio = 0.5}, 1e-2, 0), at::kDouble};
  all["sgd_groups"] = {with_groups(rule(SgdConfig{.momentum = 0.9, .dampening = 0.3}, 0.02, 0.05))};
  all["adam_groups"] = {with_groups(rule(AdamConfig{}, 3e-3, 0.05))};
  all["adamw_groups"] = {with_groups(rule(AdamWConfig{}, 3e-3, 0.1))};
  all["rmsprop_groups"] = {with_groups(rule(RmspropConfig{.momentum = 0.9}, 1e-3, 1e-2))};
  all["adafactor_groups"] = {with_groups(rule(AdafactorConfig{}, 1e-2, 0.1))};
  all["lion_groups"] = {with_groups(rule(LionConfig{}, 1e-3, 0.1)), at::kDouble};
  all["schedule_free_groups"] = {with_groups(rule(ScheduleFreeConfig{}, 1e-2, 0.1)), at::kDouble};
  all["lamb_groups"] = {with_groups(rule(LambConfig{}, 1e-2, 0.1)), at::kDouble};
  all["recipe"] = {rule(SgdConfig{.momentum = 0.9}, 0.1, 1e-2)};
  all["recipe"].config.clip_norm = 0.5;
  all["recipe"].config.lr_scheduler.shape = OneCycleScheduleConfig{};
  return all;
}

/// Rules that can do without the fused operators, without them.
std::map<std::string, Case> unfused_cases() {
  std::map<std::string, Case> unfused;
  for (auto& [name, one] : cases()) {
    const bool has_key = std::visit(
        [](auto& its) {
          if constexpr (requires { its.fused; }) {
            its.fused = false;
            return true;
          }
          return false;
        },
        one.config.rule.value);
    if (has_key) unfused[name] = one;
  }
  return unfused;
}

TEST_CASE("every rule trains as stock PyTorch does, from the same weights and batches", "[optimizer]") {
  const auto expected = testing::reference("optimizers.py", "training");
  std::vector<std::pair<std::string, Case>> all;
  for (const auto& one : cases()) all.push_back(one);
  for (const auto& one : unfused_cases()) all.push_back(one);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [name, one] = all[i];
    INFO("case " << name << (i < cases().size() ? "" : ", operator by operator"));
    const SmallNet net =
        SmallNet::of([&](const std::string& key, const auto&) { return expected.at("weight." + key); }, one.dtype);
    const auto optimizer = build(one.config, net.parameters);
    const at::Tensor losses = expected.at(name + ".losses");
    const bool reduced_precision = one.dtype == at::kFloat;
    double worst = 0;
    for (std::int64_t step = 0; step < one.steps; ++step) {
      const double loss = net.backward(expected.at("images").select(0, step), expected.at("labels").select(0, step));
      if (one.config.clip_norm) clip_grad_norm(net.parameters, one.config.clip_norm);
      optimizer->step(lr_at(one.config.lr_scheduler, one.config.lr, step, {.total_steps = one.steps}), {});
      const double reference = losses[step].item<double>();
      worst = std::max(worst, std::abs(loss - reference) / std::abs(reference));
    }
    CHECK_THAT(worst, Catch::WithinAbs(0, reduced_precision ? 2e-6 : one.bound));
    optimizer->eval();
    double worst_weight = 0;
    for (const OptimizedParameter& parameter : net.parameters) {
      const at::Tensor final = expected.at(name + ".final." + parameter.name);
      worst_weight = std::max(worst_weight, parameter.tensor.detach().sub(final).abs().max().item<double>());
    }
    CHECK_THAT(worst_weight, Catch::WithinAbs(0, one.bound));
  }
}

TEST_CASE("muon updates matrices and filters as torch.optim.Muon does in bf16", "[optimizer]") {
  const auto expected = testing::reference("optimizers.py", "matrices");
  for (const std::string name : {"wide", "tall", "square", "filters"}) {
    INFO(name);
    const at::Tensor weight = expected.at(name + ".first").clone().requires_grad_();
    const auto optimizer =
        build(rule(MuonConfig{.ns_dtype = NewtonSchulzDtype::bf16}, 0.02, 0.1), {{.name = name, .tensor = weight}});
    for (const at::Tensor& gradient : expected.at(name + ".gradients").unbind()) {
      weight.mutable_grad() = gradient.clone();
      optimizer->step(0.02, {});
    }
    const at::Tensor difference = weight.detach().sub(expected.at(name + ".final")).abs();
    CHECK_THAT(difference.max().item<double>(), Catch::WithinAbs(0, 1e-6));
  }
}

}  // namespace
}  // namespace trainctl::optimizer::training_test
