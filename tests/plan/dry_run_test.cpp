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

TEST_CASE("ZeRO's blocks of a few parameters are planned", "[plan][regression]") {
  for (const char* stage : {"1", "2", "3"}) {
    CAPTURE(stage);
    const DryRunStep step = step_of(
        {"dataset={kind: synthetic_images, num_samples: 64, num_eval_samples: 0, channels: 1, height: 4, width: 4, "
         "num_classes: 2, batch_size: 4}",
         "model={kind: mlp, hidden: [4]}", "task={kind: classification}", "activation_checkpointing={kind: none}",
         "distributed={kind: zero, stage: " + std::string(stage) + "}"},
        2);
    CHECK(step.num_parameters == 16 * 4 + 4 + 4 * 2 + 2);
    CHECK(step.kept_bytes > 0);
  }
}

TEST_CASE("the copy of a checkpoint counts where steps go on beside its writer", "[plan]") {
  const auto copy_in = [](const std::vector<std::string>& sets, PlannedDevice device = PlannedDevice::cpu) {
    const DryRunStep step = step_of(sets, 1, device);
    const std::int64_t state =
        step.at_peak.of(Purpose::parameters) + step.at_peak.of(Purpose::optimizer) + step.at_peak.of(Purpose::averages);
    return static_cast<double>(step.at_peak.of(Purpose::checkpoint)) / static_cast<double>(state);
  };
  const std::string alone = "distributed.kind=none";
  CHECK(copy_in({alone, "checkpoint.every=1"}) == Approx(1).epsilon(0.001));
  CHECK(copy_in({alone, "checkpoint.every=1", "optimizer.ema={decay: 0.9}"}) == Approx(1).epsilon(0.001));
  CHECK(copy_in({alone, "checkpoint.in_memory={every: 1}"}) == Approx(1).epsilon(0.001));
  CHECK(copy_in({alone, "checkpoint.every=2"}) == 0);  // the last step's
  CHECK(copy_in({alone, "checkpoint.every=1", "checkpoint.async=false"}) == 0);
  CHECK(copy_in({alone, "checkpoint.every=1"}, PlannedDevice::cuda) == 0);  // the copy is the host's
}

TEST_CASE("ranks that share layers keep their parts, and send two sums a block and pass", "[plan]") {
  const std::string plain = "activation_checkpointing={kind: none}";
  const DryRunStep alone = step_of({"distributed.kind=none", plain}, 1);
  const DryRunStep half = step_of({"distributed.kind=ddp", "distributed.tensor=2", plain}, 2);
  CHECK(half.num_parameters == alone.num_parameters);
  CHECK(half.num_sharing_gradients == 1);
  for (const Purpose purpose : {Purpose::parameters, Purpose::optimizer})
    CHECK(static_cast<double>(half.at_peak.of(purpose)) ==
          Approx(static_cast<double>(alone.at_peak.of(purpose)) / 2).epsilon(0.01));
  // Eight blocks send four sums each. The embeddings are summed in one pass, and the head's input in the other.
  constexpr double kHidden = 16 * 256 * 4;
  CHECK(half.sent_bytes == Approx((8 * 2 * 2 + 2) * kHidden).epsilon(0.02));
  const DryRunStep copies = step_of({"distributed.kind=ddp", "distributed.tensor=2", plain}, 4);
  CHECK(copies.num_sharing_gradients == 2);
  CHECK(copies.kept_bytes > half.kept_bytes);  // replicas keep gradients
}

TEST_CASE("ranks that share sequences hold their tokens, and send keys and values round", "[plan]") {
  const std::vector<std::string> sets{"distributed.kind=ddp", "activation_checkpointing={kind: none}"};
  std::vector<std::string> shared = sets;
  shared.emplace_back("distributed.context=2");
  const DryRunStep whole = step_of(sets, 2);
  const DryRunStep half = step_of(shared, 2);
  CHECK(half.kept_bytes == whole.kept_bytes);
  CHECK(half.num_sharing_gradients == 2);
  CHECK(static_cast<double>(half.at_peak.of(Purpose::activations)) <
        0.65 * static_cast<double>(whole.at_peak.of(Purpose::activations)));
  // Two heads of 32 for 8 of 16 tokens: both once forward and once back, and their gradients twice.
  constexpr double kKeysValues = 2 * 2 * 8 * 32 * 4;
  CHECK(half.sent_bytes == Approx(8 * 4 * kKeysValues).epsilon(0.02));
}

TEST_CASE("a pipeline's ranks keep the model together, and its first has most micro-batches in flight", "[plan]") {
  const std::string plain = "activation_checkpointing={kind: none}";
  const DryRunStep alone = step_of({"distributed.kind=none", plain}, 1);
  for (const char* schedule : {"{kind: 1f1b}", "{kind: interleaved_1f1b}", "{kind: zbv}", "{kind: gpipe}"}) {
    CAPTURE(schedule);
    const DryRunStep row =
        step_of({"distributed={kind: ddp, pipeline: 2, pipeline_schedule: " + std::string(schedule) + "}",
                 "accumulation.steps=6", plain},
                4);
    REQUIRE(row.stages.size() == 2);
    CHECK(row.num_parameters == alone.num_parameters);
    CHECK(row.micro_batches == 6);
    CHECK(row.global_batch == 12);
    // Two copies keep gradients, which one process doesn't.
    CHECK(static_cast<double>(row.stages[0].kept_bytes + row.stages[1].kept_bytes) ==
          Approx(static_cast<double>(alone.num_parameters) * 16).epsilon(0.02));
  }
  const std::vector<std::string> sets{
      "distributed={kind: ddp, pipeline: 2, pipeline_split: {kind: by_hand, blocks: [5, 5]}}", "accumulation.steps=6",
      "dataset.batch_size=64", plain};
  const DryRunStep row = step_of(sets, 2);
  const auto beside = [&](std::size_t rank) {
    return static_cast<double>(row.stages[rank].peak_bytes - row.stages[rank].kept_bytes);
  };
  CHECK(beside(0) > 1.4 * beside(1));
}

/// One block's weights, and the next one's that is being gathered: not all blocks'.
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
  hybrid.insert(hybrid.end(), {"distributed.shard=4"});
  const DryRunStep of_four = step_of(zero, 4);
  const DryRunStep of_sixteen = step_of(hybrid, 16);
  for (const Purpose purpose : {Purpose::parameters, Purpose::optimizer})
    CHECK(of_sixteen.at_peak.of(purpose) == of_four.at_peak.of(purpose));
  CHECK(of_sixteen.at_peak.of(Purpose::optimizer) > 3 * step_of(zero, 16).at_peak.of(Purpose::optimizer));
  hybrid.back() = "distributed.shard=5";
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
