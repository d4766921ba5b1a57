"""An update rule: torch.optim.Adagrad."""
from addition import Addition, Before, Forgotten, New, Run

CONFIG = """/// https://jmlr.org/papers/v12/duchi11a.html as torch.optim.Adagrad, without decay of the learning rate.
struct AdagradConfig {
  static constexpr std::string_view kind = "adagrad";
  static constexpr OptimizerTraits traits{.is_elementwise = true, .updates_shards = true, .normalizes_elements = true,
                                          .averages_weights = false,
                                          .reads_overflow_flag = true, .starter_lr = 0.03};
  double eps = 1e-10;

  OptimizerFacts facts() const { return {.could_fuse = false}; }
  static constexpr auto fields() {
    return config::Fields{config::field<&AdagradConfig::eps>("Added to the root of the sum.", config::non_negative)};
  }
};

"""

SOURCE = """#include <ATen/core/grad_mode.h>

#include "optimizer/rule.h"

namespace trainctl::optimizer {
namespace {

class Adagrad final : public Optimizer {
 public:
  Adagrad(const AdagradConfig& config, ParameterGroups groups) : config_(config), groups_(std::move(groups)) {
    for (const ParameterGroup& group : groups_) sums_.push_back(zeros_like(group));
  }

  void step(double lr, const at::Tensor& found_inf) override {
    if (overflowed(found_inf)) return;
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Active active = active_of(groups_[i]);
      const std::vector<at::Tensor> sums = active.pick(sums_[i]);
      for (std::size_t j = 0; j < sums.size(); ++j) {
        const at::Tensor gradient = active.gradients[j].add(active.parameters[j], groups_[i].weight_decay);
        sums[j].addcmul_(gradient, gradient);
        active.parameters[j].addcdiv_(gradient, sums[j].sqrt().add_(config_.eps), -lr);
      }
    }
  }

  void visit_state(runtime::State& state) override {
    for (std::size_t i = 0; i < groups_.size(); ++i) visit_slot(state, "sum", groups_[i], sums_[i]);
  }

 private:
  AdagradConfig config_;
  ParameterGroups groups_;
  std::vector<std::vector<at::Tensor>> sums_;  // one list for each group
};

}  // namespace

std::unique_ptr<Optimizer> build(const AdagradConfig& config, ParameterGroups groups) {
  return std::make_unique<Adagrad>(config, std::move(groups));
}

}  // namespace trainctl::optimizer
"""

EXPERIMENT = """name: summed
dataset: {kind: synthetic_images, num_samples: 64, num_eval_samples: 0, height: 8, width: 8, num_classes: 4, batch_size: 8}
model: {kind: cnn}
optimizer: {kind: adagrad}
train: {steps: 2, log_every: 1}
"""

RULES = "src/optimizer/rule_config.h"
TEST = "tests/optimizer/training_test.cpp"

CASE = Addition(
    section="Adding an optimizer",
    name="adagrad",
    steps={
        RULES: [Before("using UpdateRuleConfig =", CONFIG), Before(", AdafactorConfig, PluggedRuleConfig>;", ", AdagradConfig")],
        "src/optimizer/rule.h": [Before("std::unique_ptr<Optimizer> build(const AdafactorConfig&",
                                        "std::unique_ptr<Optimizer> build(const AdagradConfig& config, ParameterGroups groups);\n")],
        "src/optimizer/adagrad.cpp": [New(SOURCE)],
        TEST: [Before('  all["recipe"] = ', '  all["adagrad"] = {rule(AdagradConfig{}, 0.02, 0.1)};\n')],
        "tests/reference/optimizers.py": [Before('    "recipe": (SGD,', '    "adagrad": (torch.optim.Adagrad, dict(lr=0.02), 0.1, {}),\n')],
    },
    tests=["tests/optimizer/optimizer_test.cpp"],
    files={"experiment.yaml": EXPERIMENT},
    programs={
        "trainctl_engine": [],
        "trainctl": [
            Run(["config", "schema"], says=['"adagrad"', "Added to the root of the sum."]),
            Run(["config", "new", "--optimizer", "adagrad"], says=["kind: adagrad", "lr: 0.03"]),
            Run(["train", "experiment.yaml", "--run-dir", "run"], says=["step 2/2", "finished 2 steps"]),
            Run(["train", "experiment.yaml", "--run-dir", "run", "--set", "train.steps=4"],
                says=["resumed after step 2", "step 3/4", "finished 4 steps"]),
        ],
        "test_optimizer": [
            Run([], says=["All tests passed"]),  # optimizer_test takes the rule by itself: its state is saved, bit for bit
        ],
    },
    forgotten=[
        Forgotten((RULES, "traits{.is_elementwise = true, .updates_shards = true, .normalizes_elements = true,\n",
                   "constants{.is_elementwise = true, .updates_shards = true, .normalizes_elements = true,\n"),
                  says=["a kind has no `static constexpr … traits`"], source=RULES),
        Forgotten((RULES, ", .starter_lr = 0.03", ""), says=["rule_config.h"], source=RULES),
        Forgotten((RULES, ", AdagradConfig", ""), says=["AdagradConfig"], source=TEST),
        Forgotten((RULES, "config::field<&AdagradConfig::eps>(\"Added to the root of the sum.\", config::non_negative)", ""),
                  says=["fields() must list every member of the config struct"], source="src/experiment/shape.cpp"),
        Forgotten(("src/optimizer/rule.h", "build(const AdagradConfig&", "construct(const AdagradConfig&"),
                  says=["build(const trainctl::optimizer::AdagradConfig&"], source="src/optimizer/optimizer.cpp"),
        Forgotten(("src/optimizer/adagrad.cpp", "", ""), says=["undefined"], program="test_optimizer"),
    ],
    closed_sets=[(RULES, "UpdateRuleConfig", "optimizer")],
)
