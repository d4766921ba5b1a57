// Runs whose gradients are sent by PowerSGD.
#include "ranks.h"
#include "train/loop/trainer.h"
#include "train/run/restore.h"

namespace trainctl::train {

using namespace testing;

namespace {

distributed::DistributedKindConfig power_sgd(std::int64_t rank, std::int64_t start_step) {
  return distributed::DdpConfig{.gradient_compression = distributed::PowerSgdConfig{
                                    .rank = rank, .start_step = start_step, .min_compression_rate = 1}};
}

/// Mean loss of the last 20 of 160 steps.
double last_loss(const distributed::DistributedKindConfig& how, std::int64_t seed) {
  constexpr std::int64_t kSteps = 160;
  double loss = 0;
  on_ranks(2, [&](std::size_t rank, comm::Group& group) {
    Setting setting;
    setting.how = how;
    std::vector<tracking::Notice> notices;
    experiment::Experiment experiment = experiment_of(setting, 2);
    experiment.seed = seed;
    experiment.optimizer.rule = optimizer::SgdConfig{.momentum = 0.9};
    experiment.optimizer.lr = 0.05;
    const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = 2});
    Step step(*run);
    double sum = 0;
    for (std::int64_t i = 0; i < kSteps; ++i) {
      const StepResult result = step(GradNorm::only_to_clip);
      if (i >= kSteps - 20) sum += result.loss.item<double>() / static_cast<double>(result.count) / 20;
    }
    if (rank == 0) loss = sum;
  });
  return loss;
}

/// The weights after 8 steps, saved after 4; from a step directory or from the start.
std::vector<at::Tensor> weights_after_eight_steps(const std::filesystem::path& run_directory,
                                                  const std::optional<std::filesystem::path>& from,
                                                  std::int64_t num_ranks = 2) {
  std::vector<at::Tensor> weights;
  on_ranks(num_ranks, [&](std::size_t rank, comm::Group& group) {
    Setting setting;
    setting.how = power_sgd(2, 2);
    experiment::Experiment experiment = experiment_of(setting, num_ranks);
    experiment.optimizer.rule = optimizer::SgdConfig{};  // rounding stays small
    experiment.train.steps = 8;
    experiment.checkpoint.every = 4;
    std::vector<tracking::Notice> notices;
    const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = num_ranks});
    EventLog log;
    if (from) restore(*run, *from, {}, log);
    const StopSignal stop;
    Trainer(*run, log, stop, {.run_directory = run_directory, .config = {}}).run();
    const std::vector<at::Tensor> mine = whole_weights(*run);
    if (rank == 0) weights = mine;
  });
  return weights;
}

}  // namespace

TEST_CASE("gradients sent by powersgd train as well as exact ones, but for what a seed changes", "[train][dist]") {
  double worst_exact = 0;
  double worst_compressed = 0;
  for (const std::int64_t seed : {7, 8, 9}) {
    worst_exact = std::max(worst_exact, last_loss(distributed::DdpConfig{}, seed));
    worst_compressed = std::max(worst_compressed, last_loss(power_sgd(2, 5), seed));
  }
  CAPTURE(worst_exact, worst_compressed);
  CHECK(worst_exact < 0.05);  // of log 4 at first
  CHECK(worst_compressed < 2 * worst_exact);
}

TEST_CASE("before its first step powersgd changes no bit, and after it ranks still agree", "[train][dist]") {
  const std::vector<Result> exact = on_ranks({}, 2, at::kFloat);
  const std::vector<Result> later = on_ranks({.how = power_sgd(1, 10)}, 2, at::kFloat);
  CHECK(later[0].losses == exact[0].losses);
  const std::vector<Result> sooner = on_ranks({.micro_batches = 2, .how = power_sgd(1, 3)}, 2, at::kFloat);
  CHECK(sooner[0].losses != exact[0].losses);
  CHECK(sooner[0].losses == sooner[1].losses);
}

TEST_CASE("a run with powersgd is resumed bit for bit", "[train][dist]") {
  const TemporaryDirectory directory;
  const std::vector<at::Tensor> expected = weights_after_eight_steps(directory.path() / "whole", {});
  const std::filesystem::path half = directory.path() / "whole" / "checkpoints" / "step_00000004";
  REQUIRE(std::filesystem::exists(half));
  const std::vector<at::Tensor> resumed = weights_after_eight_steps(directory.path() / "second", half);
  CHECK(largest_difference(resumed, expected) == 0);
}

TEST_CASE("a run with powersgd goes on with another number of ranks", "[train][dist][regression]") {
  const TemporaryDirectory directory;
  const std::filesystem::path half = directory.path() / "whole" / "checkpoints" / "step_00000004";
  const std::vector<at::Tensor> expected = weights_after_eight_steps(directory.path() / "whole", {});
  const std::vector<at::Tensor> four = weights_after_eight_steps(directory.path() / "four", half, /*num_ranks=*/4);
  CHECK(largest_difference(four, expected) < 1e-5);

  // A process alone leaves out what wasn't sent, and has nothing that other ranks could go on with.
  weights_after_eight_steps(directory.path() / "one", half, /*num_ranks=*/1);
  const std::filesystem::path one = directory.path() / "one" / "checkpoints" / "step_00000008";
  REQUIRE(std::filesystem::exists(one));
  CHECK_NOTHROW(weights_after_eight_steps(directory.path() / "two", one));
}

}  // namespace trainctl::train
