// Steps recorded once and repeated, against the same steps computed each time.
#include "train/loop/step_graph.h"

#include <catch2/catch.hpp>

#include "kernels/portable.h"
#include "recorded_operators.h"
#include "small_run.h"
#include "train/loop/step.h"

namespace trainctl::train {

using namespace testing;

namespace {

/// Each step has a learning rate of its own.
experiment::Experiment recordable(model::NetworkConfig network = model::MlpConfig{.hidden = {24, 16}, .dropout = 0}) {
  experiment::Experiment experiment = small_experiment();
  experiment.model.network = std::move(network);
  experiment.train.graph = Graph::whole_step;
  experiment.optimizer.rule = optimizer::AdamWConfig{};
  experiment.optimizer.lr = 1e-2;
  experiment.optimizer.weight_decay = 0.1;
  experiment.optimizer.clip_norm = 0.5;
  experiment.optimizer.lr_scheduler.shape = optimizer::CosineScheduleConfig{};
  return experiment;
}

struct GraphRun {
  std::vector<at::Tensor> weights;
  std::vector<double> losses;
  std::vector<double> norms;
  double window = 0;
  int replays = 0;
};

GraphRun train(experiment::Experiment experiment, Graph graph, int steps = 16) {
  experiment.train.graph = graph;
  experiment.train.steps = steps;
  const std::unique_ptr<Run> run = build_run(experiment);
  GraphRun trained;
  Step step(*run, graph == Graph::none ? nullptr : std::make_unique<RecordedOperators>(trained.replays));
  for (int i = 0; i < steps; ++i) {
    const StepResult result = step(GradNorm::measure);
    CHECK(result.skipped.item<float>() == 0);
    trained.losses.push_back(result.loss.item<double>());
    trained.norms.push_back(result.grad_norm.item<double>());
  }
  trained.window = run->window[0].item<double>() / run->window[1].item<double>();
  if (run->ema) run->ema->swap();
  trained.weights = weights_of(*run);
  return trained;
}

/// `tolerance`: 0 where both divide by the same numbers in the same order.
void check_same(const experiment::Experiment& experiment, double tolerance, int least_replays) {
  const kernels::PortableOperators portable;  // as on a GPU: kernels of a CPU that aren't operators aren't recorded
  const GraphRun expected = train(experiment, Graph::none);
  const GraphRun repeated = train(experiment, Graph::whole_step);
  CHECK(repeated.replays >= least_replays);
  CHECK(largest_difference(repeated.weights, expected.weights) <= tolerance);
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(repeated.losses[i] == Approx(expected.losses[i]).epsilon(tolerance));
    CHECK(repeated.norms[i] == Approx(expected.norms[i]).epsilon(tolerance));
  }
  CHECK(repeated.window == Approx(expected.window).epsilon(tolerance));
}

}  // namespace

TEST_CASE("a repeated step trains to the bit as a computed one", "[train]") {
  experiment::Experiment experiment = recordable(GENERATE(
      as<model::NetworkConfig>(), model::MlpConfig{.hidden = {24, 16}, .dropout = 0},
      model::CnnConfig{.channels = {4, 8}, .batch_norm = true},
      model::VitConfig{.hidden_size = 16, .num_layers = 2, .num_heads = 2, .intermediate_size = 32, .patch_size = 4}));
  SECTION("adamw") {
    check_same(experiment, 0, 12);
  }
  SECTION("adam with averages") {
    experiment.optimizer.rule = optimizer::AdamConfig{.amsgrad = true};
    experiment.optimizer.ema = optimizer::EmaConfig{.decay = 0.9, .every = 2, .start = 3};
    check_same(experiment, 1e-7, 12);  // which follow by another operator
  }
  SECTION("micro-batches") {
    experiment.accumulation.steps = 2;
    check_same(experiment, 0, 12);
  }
  SECTION("two bytes") {
    experiment.amp.mode = amp::Precision::bf16;
    check_same(experiment, 0, 12);
  }
  SECTION("a scaled loss") {
    experiment.amp.mode = amp::Precision::fp16;
    experiment.amp.loss_scaling = amp::DynamicScalingConfig{.init_scale = 64, .growth_interval = 3};
    check_same(experiment, 0, 12);
  }
}

TEST_CASE("a repeated step reads its learning rate as a float, by LibTorch's rule", "[train]") {
  experiment::Experiment experiment = recordable();
  experiment.optimizer.rule = optimizer::SgdConfig{.momentum = 0.9, .dampening = 0.1};
  experiment.optimizer.clip_norm.reset();  // whose factor the host reads on a CPU, and not on a GPU
  check_same(experiment, 1e-6, 12);
}

TEST_CASE("a step of another shape is computed, and the next ones repeat", "[train]") {
  experiment::Experiment experiment = recordable();
  experiment.dataset.source = dataset::SyntheticImagesConfig{
      .num_samples = 168, .num_eval_samples = 0, .channels = 1, .height = 8, .width = 8, .num_classes = 4};
  check_same(experiment, 1e-6, 10);  // 5 batches of 32, and one of 8
  experiment.accumulation.steps = 2;
  experiment.model.network = model::MlpConfig{.hidden = {24}, .dropout = 0};
  check_same(experiment, 1e-6, 7);  // the last step of an epoch has one of 32 and one of 8
}

TEST_CASE("what a recording would repeat wrongly is refused", "[train]") {
  experiment::Experiment experiment = recordable();
  SECTION("random numbers") {
    experiment.model.network = model::MlpConfig{.hidden = {24}, .dropout = 0.2};
    CHECK_THROWS_WITH(train(experiment, Graph::whole_step), Catch::Contains("random numbers"));
  }
  SECTION("a rule that waits for the device") {
    experiment.optimizer.rule = optimizer::LionConfig{};
    CHECK_THROWS_WITH(train(experiment, Graph::whole_step), Catch::Contains("update rule that is fused"));
  }
  SECTION("shapes that change at every step") {
    experiment.dataset.source = dataset::SyntheticImagesConfig{
        .num_samples = 40, .num_eval_samples = 0, .channels = 1, .height = 8, .width = 8, .num_classes = 4};
    CHECK_NOTHROW(train(experiment, Graph::whole_step, 100));
    CHECK_THROWS_WITH(train(experiment, Graph::whole_step, 101), Catch::Contains("nothing to repeat in 100 steps"));
  }
  SECTION("a value that the host reads") {
    const std::unique_ptr<Run> run = build_run(experiment);
    int replays = 0;
    Step step(*run, std::make_unique<RecordedOperators>(replays));
    step.on_gradients = [&] { (void)run->parameters.front().tensor.grad().sum().item<float>(); };
    for (int i = 0; i < 3; ++i) step(GradNorm::measure);
    CHECK_THROWS_WITH(step(GradNorm::measure), Catch::Contains("can't record this step") &&
                                                   Catch::Contains("not permitted when stream is capturing"));
  }
  SECTION("a CPU") {
    const std::unique_ptr<Run> run = build_run(experiment);
    CHECK_THROWS_WITH(Step(*run), Catch::Contains("this run is on a CPU"));
  }
}

}  // namespace trainctl::train
