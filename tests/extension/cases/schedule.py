"""A schedule: the learning rate falls with the square root of the steps."""
from addition import Addition, After, Before, Forgotten, Run

CONFIG = """/// The rate falls as 1 / √step does (https://arxiv.org/abs/1706.03762, without its warm-up).
struct InverseSqrtScheduleConfig {
  static constexpr std::string_view kind = "inverse_sqrt";
  static constexpr ScheduleTraits traits{.has_own_warmup = /*inverse_sqrt*/ false, .decays = true};
  double scale = 1;

  ScheduleFacts facts() const { return {.watched = /*inverse_sqrt*/ std::nullopt}; }
  static constexpr auto fields() {
    return config::Fields{
        config::field<&InverseSqrtScheduleConfig::scale>("After three times as many units, the rate is half.", config::positive)};
  }
};

"""

SHAPE = """  double operator()(const InverseSqrtScheduleConfig& config) const {
    return peak * std::sqrt(config.scale / (config.scale + static_cast<double>(std::min(unit, length))));
  }
"""

EXPERIMENT = """name: falling
dataset: {kind: synthetic_images, num_samples: 64, num_eval_samples: 0, height: 8, width: 8, num_classes: 4, batch_size: 8}
model: {kind: cnn}
optimizer: {kind: sgd, lr: 0.1, lr_scheduler: inverse_sqrt}
train: {steps: 4, log_every: 1}
"""

SHAPES = "src/optimizer/schedule_config.h"
RATES = "src/optimizer/schedule.cpp"
TEST = "tests/optimizer/schedule_test.cpp"

CASE = Addition(
    section="Adding a schedule",
    name="inverse_sqrt",
    steps={
        SHAPES: [Before("using ScheduleShapeConfig = ", CONFIG), Before("PlateauScheduleConfig>;", "InverseSqrtScheduleConfig, ")],
        RATES: [After("  double operator()(const ConstantScheduleConfig&) const { return peak; }\n", SHAPE)],
        TEST: [Before('      {"wsd_linear", ', '      {"inverse_sqrt", in_steps(InverseSqrtScheduleConfig{.scale = 5}, 30)},\n')],
        "tests/reference/optimizers.py": [
            Before('    "wsd_linear": ', '    "inverse_sqrt": (lambda o: lr_scheduler.LambdaLR(o, lambda unit: math.sqrt(5 / (5 + unit))), 30, 1),\n')],
    },
    files={"experiment.yaml": EXPERIMENT},
    programs={
        "trainctl_engine": [],
        "trainctl": [
            Run(["config", "schema"], says=['"inverse_sqrt"', "After three times as many units, the rate is half."]),
            Run(["check", "--file-only", "experiment.yaml", "--set", "optimizer.lr_scheduler.kind=inverse_sqr"], code=2,
                says=["did you mean 'inverse_sqrt'?"]),
            Run(["train", "experiment.yaml", "--run-dir", "run"],
                says=["  lr 0.1  ", "  lr 0.07071  ", "  lr 0.05774  ", "  lr 0.05  ", "finished 4 steps"]),
        ],
        "test_optimizer": [Run([], says=["All tests passed"])],
    },
    forgotten=[
        Forgotten((SHAPES, ".has_own_warmup = /*inverse_sqrt*/ false", ""), says=["schedule_config.h"], source=SHAPES),
        Forgotten((SHAPES, ".watched = /*inverse_sqrt*/ std::nullopt", ""), says=["schedule_config.h"], source=SHAPES),
        Forgotten((SHAPES, "InverseSqrtScheduleConfig, ", ""), says=["InverseSqrtScheduleConfig"], source=TEST),
        Forgotten((RATES, SHAPE, ""), says=["InverseSqrtScheduleConfig"], source=RATES),
    ],
    closed_sets=[(SHAPES, "ScheduleShapeConfig", "optimizer")],
)
