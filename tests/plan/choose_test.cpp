#include "plan/choose.h"

#include <catch2/catch.hpp>

#include "core/units.h"
#include "experiment/load.h"
#include "support/temporary_directory.h"

namespace trainctl::plan {

using trainctl::testing::TemporaryDirectory;

namespace {

experiment::LoadedExperiment experiment_of(const std::string& batch, const std::string& recomputation) {
  const TemporaryDirectory directory;
  return experiment::load_experiment(directory.write(
      "auto.yaml",
      "name: auto\ndevice: {kind: cpu}\n"
      "dataset: {kind: synthetic_tokens, num_samples: 4096, num_eval_samples: 0, seq_len: 128, vocab_size: "
      "1000, batch_size: " +
          batch +
          "}\n"
          "model: {kind: gpt2, hidden_size: 128, num_layers: 6, num_heads: 4, max_position_embeddings: 128}\n"
          "task: {kind: causal_lm}\ntrain: {steps: 2}\n"
          "activation_checkpointing: {kind: " +
          recomputation + "}\n"));
}

experiment::AutoValues chosen(const experiment::LoadedExperiment& loaded, std::int64_t mib) {
  return choose(loaded.experiment, {}, {.bytes = mib * core::kMiB, .overhead = 0}).values;
}

experiment::AutoValues recomputing(std::string_view kind) {
  return {.batch_size = std::nullopt, .blocks = experiment::recomputation_named(kind)};
}

}  // namespace

TEST_CASE("More memory gives a larger batch, a power of two", "[plan]") {
  const experiment::LoadedExperiment loaded = experiment_of("auto", "none");
  REQUIRE(has_choices(loaded.experiment));
  const std::int64_t small = chosen(loaded, 100).batch_size.value();
  const std::int64_t large = chosen(loaded, 400).batch_size.value();
  CHECK(small < large);
  CHECK((large & (large - 1)) == 0);
  CHECK(chosen(loaded, 1 << 20).batch_size == 512);
  CHECK(chosen(loaded, 1).batch_size == 1);
}

TEST_CASE("Nothing is recomputed where everything fits, and more is as memory gets scarce", "[plan]") {
  const experiment::LoadedExperiment loaded = experiment_of("32", "auto");
  REQUIRE(has_choices(loaded.experiment));
  CHECK_FALSE(chosen(loaded, 10'000).batch_size);
  CHECK(chosen(loaded, 10'000).blocks.value().kind() == "none");
  CHECK(chosen(loaded, 1).blocks.value().kind() != "none");
}

TEST_CASE("What is chosen is a config like any other", "[plan]") {
  const experiment::LoadedExperiment loaded = experiment_of("auto", "auto");
  const Choices choices = choose(loaded.experiment, {}, {.bytes = 300 * core::kMiB, .overhead = 0});
  const experiment::LoadedExperiment resolved = experiment::with_values(loaded, choices.values);
  CHECK_FALSE(has_choices(resolved.experiment));
  CHECK(resolved.flat.at("dataset.batch_size") == std::to_string(choices.batch));
  CHECK(experiment::recorded_values(resolved.flat).batch_size == choices.batch);
  CHECK(experiment::recorded_values(resolved.flat).blocks.value().kind() == choices.values.blocks.value().kind());
  CHECK_FALSE(experiment::recorded_values(loaded.flat).batch_size);
  CHECK_FALSE(experiment::recorded_values(loaded.flat).blocks);
  CHECK_THAT(choices.why, Catch::Contains("auto is dataset.batch_size: "));
  CHECK_FALSE(has_choices(without_choices(loaded.experiment)));
}

TEST_CASE("What doesn't fit after all gives way to half the batch, and to recomputation before few samples", "[plan]") {
  const experiment::Experiment batches = experiment_of("auto", "none").experiment;
  const auto batch_after = [&](std::int64_t batch) { return next_smaller(batches, {.batch = batch})->batch; };
  CHECK(batch_after(32) == 16);
  CHECK(batch_after(2) == 1);
  CHECK_FALSE(next_smaller(batches, {.batch = 1}));

  const experiment::Experiment both = experiment_of("auto", "auto").experiment;
  Choices choices{.values = recomputing("none"), .batch = 32};
  std::string path;
  for (std::optional<Choices> next = next_smaller(both, choices); next; next = next_smaller(both, choices)) {
    choices = *next;
    path += " " + std::string(choices.values.blocks.value().kind()) + " " + std::to_string(choices.batch);
    CHECK(choices.values.batch_size == choices.batch);
  }
  CHECK(path == " none 16 selective_op 16 full 16 sqrt 16 sqrt 8 sqrt 4 sqrt 2 sqrt 1");

  const experiment::Experiment recomputation = experiment_of("32", "auto").experiment;
  CHECK(next_smaller(recomputation, {.values = recomputing("selective_op"), .batch = 32})->what ==
        "activation_checkpointing.kind: full");
  CHECK_FALSE(next_smaller(recomputation, {.values = recomputing("sqrt"), .batch = 32}));
}

}  // namespace trainctl::plan
