#include "plan/abstract_step.h"

#include <catch2/catch.hpp>

#include "experiment/load.h"
#include "support/scratch.h"

using namespace trainctl;
using trainctl::testing::Scratch;

namespace {

AbstractStep step_of(const std::vector<std::string>& sets, std::int64_t world) {
  const Scratch directory;
  const LoadedExperiment loaded = load_experiment(
      directory.write(
          "exp.yaml",
          "name: planned\ndevice: {kind: cpu}\n"
          "dataset: {kind: synthetic_tokens, num_samples: 256, num_eval_samples: 0, length: 16, vocab_size: "
          "512, batch_size: 1}\n"
          "model: {kind: llama, hidden_size: 256, num_layers: 8, num_heads: 8, num_key_value_heads: 2, "
          "intermediate_size: 1024, max_positions: 16}\n"
          "task: {kind: causal_lm}\n"
          "activation_checkpointing: {kind: every_block}\n"
          "train: {steps: 2}\n"),
      sets);
  return run_abstract_step(loaded.experiment, {.world = world});
}

}  // namespace

TEST_CASE("what stays between steps is what ZeRO's formulas say", "[plan]") {
  const AbstractStep alone = step_of({"distributed.kind=none"}, 1);
  const auto parameter_bytes = static_cast<double>(alone.num_parameters) * 4;
  CHECK(static_cast<double>(alone.at_peak.of(Purpose::parameters)) == Approx(parameter_bytes).epsilon(0.001));
  CHECK(static_cast<double>(alone.at_peak.of(Purpose::optimizer)) == Approx(2 * parameter_bytes).epsilon(0.001));

  const AbstractStep sharded = step_of({"distributed.kind=zero", "distributed.stage=3"}, 4);
  CHECK(static_cast<double>(sharded.at_peak.of(Purpose::parameters)) == Approx(parameter_bytes / 4).epsilon(0.01));
  CHECK(static_cast<double>(sharded.at_peak.of(Purpose::optimizer)) == Approx(parameter_bytes / 2).epsilon(0.01));
}

/// One block's weights, and the next one's that is being gathered: not all blocks'.
TEST_CASE("with sharded parameters 16 bits take no memory that grows with the network, accumulating or not", "[plan]") {
  for (const char* micro_batches : {"accumulation.steps=1", "accumulation.steps=3"}) {
    const std::vector<std::string> sets{"distributed.kind=zero", "distributed.stage=3", micro_batches};
    std::vector<std::string> in_16_bits = sets;
    in_16_bits.push_back("amp.mode=bf16");
    const AbstractStep fp32 = step_of(sets, 4);
    const AbstractStep bf16 = step_of(in_16_bits, 4);
    const std::int64_t block_bytes = fp32.num_parameters * 4 / 8;
    INFO(micro_batches << ": " << bf16.at_peak.total() << " against " << fp32.at_peak.total() << " bytes, a block has "
                       << block_bytes);
    CHECK(bf16.at_peak.total() < fp32.at_peak.total() + block_bytes);
  }
}
