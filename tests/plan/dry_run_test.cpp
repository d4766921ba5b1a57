#include "plan/dry_run.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "experiment/load.h"
#include "support/temporary_directory.h"

namespace trainctl::plan {

using trainctl::testing::TemporaryDirectory;

namespace {

DryRunStep step_of(const std::vector<std::string>& sets, std::int64_t world,
                   PlannedDevice device = PlannedDevice::cpu) {
  const TemporaryDirectory directory;
  const experiment::LoadedExperiment loaded = experiment::load_experiment(
      directory.write(
          "exp.yaml",
          "name: planned\ndevice: {kind: cpu}\n"
          "dataset: {kind: synthetic_tokens, num_samples: 256, num_eval_samples: 0, seq_len: 16, vocab_size: "
          "512, batch_size: 1}\n"
          "model: {kind: llama, hidden_size: 256, num_layers: 8, num_heads: 8, num_key_value_heads: 2, "
          "intermediate_size: 1024, max_position_embeddings: 16}\n"
          "task: {kind: causal_lm}\n"
          "activation_checkpointing: {kind: full}\n"
          "train: {steps: 2}\n"),
      sets);
  return dry_run_step(loaded.experiment, {.world = world, .device = device});
}

}  // namespace

TEST_CASE("what stays between steps is what ZeRO's formulas say", "[plan]") {
  const DryRunStep alone = step_of({"distributed.kind=none"}, 1);
  const auto parameter_bytes = static_cast<double>(alone.num_parameters) * 4;
  CHECK(static_cast<double>(alone.at_peak.of(Purpose::parameters)) == Approx(parameter_bytes).epsilon(0.001));
  CHECK(static_cast<double>(alone.at_peak.of(Purpose::optimizer)) == Approx(2 * parameter_bytes).epsilon(0.001));

  const DryRunStep sharded = step_of({"distributed.kind=zero", "distributed.stage=3"}, 4);
  CHECK(static_cast<double>(sharded.at_peak.of(Purpose::parameters)) == Approx(parameter_bytes / 4).epsilon(0.01));
  CHECK(static_cast<double>(sharded.at_peak.of(Purpose::optimizer)) == Approx(parameter_bytes / 2).epsilon(0.01));
}

/// One block's weights, and the next one's that is being gathered: not all blocks'.
TEST_CASE("parameters of a few elements are sharded with the others", "[plan][regression]") {
  for (const char* stage : {"1", "2", "3"}) {
    INFO("stage " << stage);
    const DryRunStep step = step_of(
        {"dataset={kind: synthetic_images, num_samples: 64, num_eval_samples: 0, channels: 1, height: 8, "
         "width: 8, num_classes: 4, batch_size: 8}",
         "task={kind: classification}", "model={kind: mlp, hidden: [16]}", "activation_checkpointing={kind: none}",
         "distributed={kind: zero, stage: " + std::string(stage) + "}"},
        2);
    CHECK(step.kept_bytes > 0);
  }
}

TEST_CASE("with sharded parameters 16 bits take no memory that grows with the network, accumulating or not", "[plan]") {
  for (const char* micro_batches : {"accumulation.steps=1", "accumulation.steps=3"}) {
    const std::vector<std::string> sets{"distributed.kind=zero", "distributed.stage=3", micro_batches};
    std::vector<std::string> in_16_bits = sets;
    in_16_bits.push_back("amp.mode=bf16");
    const DryRunStep fp32 = step_of(sets, 4);
    const DryRunStep bf16 = step_of(in_16_bits, 4);
    const std::int64_t block_bytes = fp32.num_parameters * 4 / 8;
    INFO(micro_batches << ": " << bf16.at_peak.total() << " against " << fp32.at_peak.total() << " bytes, a block has "
                       << block_bytes);
    CHECK(bf16.at_peak.total() < fp32.at_peak.total() + block_bytes);
  }
}

TEST_CASE("in hybrid sharding a rank's part is its group's share, not the world's", "[plan]") {
  const std::vector<std::string> zero{"distributed.kind=zero", "distributed.stage=3"};
  std::vector<std::string> hybrid = zero;
  hybrid.insert(hybrid.end(), {"distributed.sharding=hybrid", "distributed.shard_group_size=4"});
  const DryRunStep of_four = step_of(zero, 4);
  const DryRunStep of_sixteen = step_of(hybrid, 16);
  for (const Purpose purpose : {Purpose::parameters, Purpose::optimizer})
    CHECK(of_sixteen.at_peak.of(purpose) == of_four.at_peak.of(purpose));
  CHECK(of_sixteen.at_peak.of(Purpose::optimizer) > 3 * step_of(zero, 16).at_peak.of(Purpose::optimizer));
  hybrid.back() = "distributed.shard_group_size=5";
  CHECK_THROWS_WITH(step_of(hybrid, 16), Catch::Contains("doesn't divide the 16 ranks"));
}

TEST_CASE("what lies on a disk takes no memory, and no file is made to find that out", "[plan]") {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "offload";
  std::vector<std::string> sets{"distributed.kind=zero", "distributed.stage=3"};
  const DryRunStep in_memory = step_of(sets, 2);
  sets.push_back("distributed.offload.path=" + file.string());
  sets.push_back("distributed.offload.optimizer=disk");
  const DryRunStep state_on_disk = step_of(sets, 2);
  CHECK(state_on_disk.at_peak.of(Purpose::optimizer) < in_memory.at_peak.of(Purpose::optimizer) / 100);
  CHECK(state_on_disk.at_peak.of(Purpose::parameters) == in_memory.at_peak.of(Purpose::parameters));
  sets.push_back("distributed.offload.parameters=disk");
  const DryRunStep all_on_disk = step_of(sets, 2);
  CHECK(all_on_disk.at_peak.of(Purpose::parameters) < in_memory.at_peak.of(Purpose::parameters) / 2);
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("what lies in the host's memory takes none of a GPU's", "[plan]") {
  const std::vector<std::string> zero{"device.kind=auto", "distributed.kind=zero", "distributed.stage=2"};
  std::vector<std::string> on_host = zero;
  on_host.push_back("distributed.offload.optimizer=cpu");
  const DryRunStep in_memory = step_of(zero, 2, PlannedDevice::cuda);
  CHECK(in_memory.at_peak.of(Purpose::optimizer) > 0);
  CHECK(step_of(on_host, 2, PlannedDevice::cuda).at_peak.of(Purpose::optimizer) <
        in_memory.at_peak.of(Purpose::optimizer) / 100);
  CHECK(step_of(on_host, 2).at_peak.of(Purpose::optimizer) == step_of(zero, 2).at_peak.of(Purpose::optimizer));
}

TEST_CASE("gradients sent as thin matrices leave an error as large as the matrices", "[plan]") {
  const std::vector<std::string> ddp{"distributed.kind=ddp"};
  std::vector<std::string> thin = ddp;
  thin.push_back("distributed.gradient_compression.kind=powersgd");
  const DryRunStep whole = step_of(ddp, 2);
  const DryRunStep compressed = step_of(thin, 2);
  const auto parameter_bytes = static_cast<double>(whole.num_parameters) * 4;
  const auto more =
      static_cast<double>(compressed.at_peak.of(Purpose::communication) - whole.at_peak.of(Purpose::communication));
  CHECK(more > 0.95 * parameter_bytes);  // norms' weights are sent whole
  CHECK(more < 1.05 * parameter_bytes);
}

}  // namespace trainctl::plan
