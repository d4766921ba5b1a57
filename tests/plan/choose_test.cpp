#include "plan/choose.h"

#include <catch2/catch.hpp>
#include <map>

#include "core/units.h"
#include "experiment/load.h"
#include "support/scratch.h"

namespace trainctl::plan {

using trainctl::testing::Scratch;

namespace {

experiment::LoadedExperiment experiment_of(const std::string& batch, const std::string& recomputation) {
  const Scratch directory;
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

std::map<std::string, std::string> chosen(const experiment::LoadedExperiment& loaded, std::int64_t mib) {
  std::map<std::string, std::string> values;
  for (const Setting& setting : choose(loaded.experiment, {}, {.bytes = mib * core::kMiB, .overhead = 0}).settings)
    values[setting.path] = setting.value;
  return values;
}

}  // namespace

TEST_CASE("More memory gives a larger batch, a power of two", "[plan]") {
  const experiment::LoadedExperiment loaded = experiment_of("auto", "none");
  REQUIRE(has_choices(loaded.experiment));
  const std::int64_t small = std::stoll(chosen(loaded, 100).at("dataset.batch_size"));
  const std::int64_t large = std::stoll(chosen(loaded, 400).at("dataset.batch_size"));
  CHECK(small < large);
  CHECK((large & (large - 1)) == 0);
  CHECK(chosen(loaded, 1 << 20).at("dataset.batch_size") == "512");
  CHECK(chosen(loaded, 1).at("dataset.batch_size") == "1");
}

TEST_CASE("Nothing is recomputed where everything fits, and more is as memory gets scarce", "[plan]") {
  const experiment::LoadedExperiment loaded = experiment_of("32", "auto");
  REQUIRE(has_choices(loaded.experiment));
  CHECK(chosen(loaded, 10'000) == std::map<std::string, std::string>{{"activation_checkpointing.kind", "none"}});
  CHECK(chosen(loaded, 1).at("activation_checkpointing.kind") != "none");
}

TEST_CASE("What is chosen is a config like any other", "[plan]") {
  const experiment::LoadedExperiment loaded = experiment_of("auto", "auto");
  const Choices choices = choose(loaded.experiment, {}, {.bytes = 300 * core::kMiB, .overhead = 0});
  std::vector<std::string> sets;
  for (const Setting& setting : choices.settings) sets.push_back(setting.path + "=" + setting.value);
  const experiment::LoadedExperiment resolved = experiment::with_settings(loaded, sets);
  CHECK_FALSE(has_choices(resolved.experiment));
  CHECK(resolved.flat.at("dataset.batch_size") != "auto");
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
  Choices choices{.batch = 32, .recomputation = "none"};
  std::string path;
  for (std::optional<Choices> next = next_smaller(both, choices); next; next = next_smaller(both, choices)) {
    choices = *next;
    path += " " + choices.recomputation + " " + std::to_string(choices.batch);
    REQUIRE(choices.settings.size() == 2);
    CHECK(choices.settings[0].value == std::to_string(choices.batch));
  }
  CHECK(path == " none 16 selective_op 16 full 16 sqrt 16 sqrt 8 sqrt 4 sqrt 2 sqrt 1");

  const experiment::Experiment recomputation = experiment_of("32", "auto").experiment;
  CHECK(next_smaller(recomputation, {.batch = 32, .recomputation = "selective_op"})->what ==
        "activation_checkpointing.kind: full");
  CHECK_FALSE(next_smaller(recomputation, {.batch = 32, .recomputation = "sqrt"}));
}

}  // namespace trainctl::plan
