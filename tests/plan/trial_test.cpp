#include "plan/trial.h"

#include <catch2/catch.hpp>

#include "core/units.h"
#include "experiment/load.h"
#include "runtime/memory.h"
#include "support/temporary_directory.h"

namespace trainctl::plan {

using trainctl::testing::TemporaryDirectory;

namespace {

experiment::Experiment experiment_to_try(const std::vector<std::string>& sets = {}) {
  const TemporaryDirectory directory;
  return experiment::load_experiment(
             directory.write(
                 "trial.yaml",
                 "name: trial\ndevice: {kind: cpu}\n"
                 "dataset: {kind: synthetic_tokens, num_samples: 4096, num_eval_samples: 0, seq_len: 64, "
                 "vocab_size: 512, batch_size: 16}\n"
                 "model: {kind: gpt2, hidden_size: 128, num_layers: 4, num_heads: 2, max_position_embeddings: 64}\n"
                 "task: {kind: causal_lm}\ntrain: {steps: 2}\n"),
             sets)
      .experiment;
}

constexpr std::int64_t kPlenty = 4096 * core::kMiB;

TrialPlace place_with(std::int64_t bytes, std::int64_t world = 1) {
  runtime::install_host_allocator(runtime::HostMemory::cached);
  return {.device = c10::kCPU, .world = world, .local_world = world, .limit = {.bytes = bytes, .overhead = 0}};
}

}  // namespace

TEST_CASE("Steps in earnest take what is predicted, whatever the layout", "[plan]") {
  for (const auto& [how, world] : {std::pair{"none", 1}, std::pair{"ddp", 2}, std::pair{"zero", 2}}) {
    CAPTURE(how);
    const experiment::Experiment experiment =
        experiment_to_try({std::string("distributed.kind=") + how, "accumulation.steps=3"});
    const Trial trial = try_steps(experiment, place_with(kPlenty, world));
    REQUIRE(trial.outcome == TrialOutcome::fits);
    const std::int64_t predicted = dry_run_step(experiment, {.world = world}).at_peak.total();
    CHECK(static_cast<double>(trial.peak_bytes) == Approx(predicted).epsilon(0.05));
  }
}

TEST_CASE("Steps that take more than there is are no failure, and leave nothing behind", "[plan]") {
  const std::int64_t before = (place_with(kPlenty), runtime::host_memory().current);
  const std::int64_t needed = dry_run_step(experiment_to_try()).at_peak.total();
  const Trial trial = try_steps(experiment_to_try(), place_with(before + needed * 8 / 10));
  CHECK(trial.outcome == TrialOutcome::out_of_memory);
  CHECK_THAT(trial.failure, Catch::Contains("cannot allocate"));
  CHECK(runtime::host_memory().current <= before + core::kMiB);
  CHECK(runtime::host_memory().peak <= before + core::kMiB);
  CHECK(try_steps(experiment_to_try(), place_with(before + needed * 12 / 10)).outcome == TrialOutcome::fits);
  runtime::limit_host_memory(std::nullopt);
}

TEST_CASE("What is wrong with the data is left to the run to tell", "[plan]") {
  const experiment::Experiment experiment = experiment_to_try({"dataset.num_samples=8", "dataset.drop_last=true"});
  CHECK(try_steps(experiment, place_with(kPlenty)).outcome == TrialOutcome::not_made);
  runtime::limit_host_memory(std::nullopt);
}

}  // namespace trainctl::plan
