// What fits, by steps on tensors without values: answers are checked by running such a step with them.
#include "plan/fit.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/units.h"
#include "experiment/load.h"
#include "plan/plan.h"
#include "support/temporary_directory.h"

namespace trainctl::plan {

using trainctl::testing::TemporaryDirectory;

namespace {

experiment::LoadedExperiment experiment_with(const std::vector<std::string>& sets = {}) {
  const TemporaryDirectory directory;
  return experiment::load_experiment(
      directory.write("fit.yaml",
                      "name: fit\ndevice: {kind: cpu}\n"
                      "dataset: {kind: synthetic_tokens, num_samples: 4096, num_eval_samples: 0, seq_len: 64, "
                      "vocab_size: 512, batch_size: 16}\n"
                      "model: {kind: gpt2, hidden_size: 64, num_layers: 4, num_heads: 2, max_position_embeddings: 64}\n"
                      "task: {kind: causal_lm}\ntrain: {steps: 2}\n"),
      sets);
}

std::int64_t peak_of(const std::vector<std::string>& sets, const DryRunOptions& how) {
  return dry_run_step(experiment_with(sets).experiment, how).at_peak.total();
}

std::vector<std::string> assignments(const FitSuggestion& change, std::vector<std::string> sets = {}) {
  for (const Setting& setting : change.settings) sets.push_back(setting.path + "=" + setting.value);
  return sets;
}

MemoryLimit room_of(std::int64_t bytes) {
  return {.bytes = bytes, .overhead = 0};
}

}  // namespace

TEST_CASE("the largest batch fits, and one sample more doesn't", "[plan]") {
  const experiment::LoadedExperiment loaded = experiment_with();
  const DryRunStep known = dry_run_step(loaded.experiment);
  for (const std::int64_t mib : {6, 40, 150}) {
    CAPTURE(mib);
    const MemoryLimit room = room_of(mib * core::kMiB);
    const std::int64_t batch = largest_batch(loaded.experiment, {}, room, known);
    REQUIRE(batch > 0);
    CHECK(peak_of({"dataset.batch_size=" + std::to_string(batch)}, {}) <= room.for_tensors());
    CHECK(peak_of({"dataset.batch_size=" + std::to_string(batch + 1)}, {}) > room.for_tensors());
  }
  CHECK(largest_batch(loaded.experiment, {}, room_of(core::kMiB), known) == 0);
}

TEST_CASE("the largest batch is found where the optimizer decides the peak", "[plan]") {
  const std::vector<std::string> sets{
      "optimizer.fused=false", "task={kind: classification}", "model={kind: mlp, hidden: [1024, 1024]}",
      "dataset={kind: synthetic_images, num_samples: 100000, channels: 1, height: 8, width: 8, num_classes: 4, "
      "batch_size: 2}"};
  const experiment::LoadedExperiment loaded = experiment_with(sets);
  const DryRunStep known = dry_run_step(loaded.experiment);
  const MemoryLimit room = room_of(known.at_peak.total() * 2);
  const std::int64_t batch = largest_batch(loaded.experiment, {}, room, known);
  const auto peak = [&](std::int64_t size) {
    std::vector<std::string> all = sets;
    all.push_back("dataset.batch_size=" + std::to_string(size));
    return peak_of(all, {});
  };
  CHECK(peak(batch) <= room.for_tensors());
  CHECK(peak(batch + 1) > room.for_tensors());
}

TEST_CASE("where an experiment doesn't fit, each change that is named makes it, and says what it costs", "[plan]") {
  const experiment::LoadedExperiment loaded = experiment_with();
  const std::int64_t peak = dry_run_step(loaded.experiment).at_peak.total();
  const MemoryLimit room = room_of(peak * 6 / 10);
  const std::vector<FitSuggestion> changes = changes_that_fit(loaded.experiment, {}, room);
  REQUIRE_FALSE(changes.empty());
  for (const FitSuggestion& change : changes) {
    CAPTURE(text_of(change.settings));
    CHECK(change.peak_bytes <= room.for_tensors());
    CHECK_FALSE(change.why.empty());
    CHECK(peak_of(assignments(change), {}) == change.peak_bytes);
  }
  const experiment::LoadedExperiment smaller = experiment_with(assignments(changes.front()));
  CHECK(smaller.experiment.dataset.samples_per_batch() * smaller.experiment.accumulation.steps == 16);
}

TEST_CASE("several ranks may share what one can't hold, and on a GPU the host holds what is needed once", "[plan]") {
  const std::vector<std::string> sets = {"dataset.batch_size=1", "model.hidden_size=256", "model.num_layers=6",
                                         "device.kind=auto"};
  const experiment::LoadedExperiment loaded = experiment_with(sets);
  const DryRunOptions four{.world = 4, .device = PlannedDevice::cuda};
  const std::int64_t peak = dry_run_step(loaded.experiment, four).at_peak.total();
  std::vector<std::string> found;
  for (const FitSuggestion& change : changes_that_fit(loaded.experiment, four, room_of(peak * 7 / 10))) {
    found.push_back(text_of(change.settings));
    CHECK(peak_of(assignments(change, sets), four) == change.peak_bytes);
  }
  CAPTURE(found);
  CHECK(
      std::ranges::any_of(found, [](const std::string& one) { return one.find("distributed.stage: 1") != one.npos; }));
  CHECK(std::ranges::any_of(found,
                            [](const std::string& one) { return one.find("offload.optimizer: cpu") != one.npos; }));
}

TEST_CASE("what no change makes fit has none; what needs all of them has all", "[plan]") {
  const experiment::LoadedExperiment loaded = experiment_with();
  CHECK(changes_that_fit(loaded.experiment, {}, room_of(core::kMiB / 2)).empty());
  const DryRunOptions four{.world = 4};
  const experiment::LoadedExperiment large = experiment_with({"dataset.batch_size=8", "model.hidden_size=128"});
  const std::int64_t least = peak_of({"dataset.batch_size=1", "model.hidden_size=128", "distributed.kind=zero",
                                      "distributed.stage=3", "activation_checkpointing=full"},
                                     four);
  const std::vector<FitSuggestion> changes = changes_that_fit(large.experiment, four, room_of(least * 11 / 10));
  REQUIRE(changes.size() == 1);
  CHECK(changes.front().why == "all that saves, together");
  CHECK(changes.front().peak_bytes <= least * 11 / 10);
}

}  // namespace trainctl::plan
