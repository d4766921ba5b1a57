// Every way of sharing the work × everything that must survive it: ten steps against one process with the whole batch.
// With TRAINCTL_EQUALITY_TABLE=FILE the differences are written there, as docs/equality.md has them.
#include <ATen/Context.h>

#include <limits>

#include "ranks.h"

namespace trainctl::train {

using namespace testing;

namespace {

struct Kind {
  std::string name;
  std::int64_t world_size;
  distributed::DistributedKindConfig how;
  distributed::DistributedKindConfig with_synchronised_batch_norm;
  std::int64_t pipeline = 1;
  distributed::PipelineScheduleConfig schedule{};
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  std::int64_t context = 1;
};

template <class Config>
Kind kind(std::string name, std::int64_t world_size, Config config) {
  Config synchronised = config;
  synchronised.sync_batch_norm = true;
  return {std::move(name), world_size, config, synchronised};
}

std::vector<Kind> table_kinds() {
  const auto zero = [](std::int64_t stage) { return distributed::ZeroConfig{.stage = stage}; };
  std::vector<Kind> all;
  for (const std::int64_t ranks : {2, 3, 4})
    all.push_back(kind("ddp, " + std::to_string(ranks) + " ranks", ranks, distributed::DdpConfig{}));
  for (const std::int64_t replicas : {2, 3})
    all.push_back(kind("local_replicas, " + std::to_string(replicas) + " replicas", replicas,
                       distributed::LocalReplicasConfig{.devices = replicas}));
  for (const std::int64_t stage : {1, 2, 3})
    for (const std::int64_t ranks : {2, 4})
      all.push_back(
          kind("zero stage " + std::to_string(stage) + ", " + std::to_string(ranks) + " ranks", ranks, zero(stage)));
  for (const std::int64_t stage : {1, 2, 3})
    all.push_back(kind("zero stage " + std::to_string(stage) + ", hybrid 2 × 2", 4,
                       distributed::ZeroConfig{.stage = stage, .shard = std::int64_t{2}}));
  const auto stages = [&](std::string name, std::int64_t ranks, auto how, auto schedule) {
    all.push_back(kind("pipeline 2 " + name, ranks, how));
    all.back().pipeline = 2;
    all.back().schedule = schedule;
  };
  const distributed::DdpConfig ddp;
  stages("gpipe", 2, ddp, distributed::GpipeConfig{});
  stages("1f1b", 2, ddp, distributed::OneFOneBConfig{});
  stages("interleaved_1f1b", 2, ddp, distributed::InterleavedConfig{});
  stages("zbv", 2, ddp, distributed::ZeroBubbleVConfig{});
  stages("1f1b × ddp 2", 4, ddp, distributed::OneFOneBConfig{});
  for (const std::int64_t stage : {1, 3})
    stages("1f1b × zero stage " + std::to_string(stage) + " 2", 4, zero(stage), distributed::OneFOneBConfig{});
  const auto parts = [&](std::string name, std::int64_t tensor, std::int64_t pipeline, std::int64_t data, auto how) {
    all.push_back(kind("tensor " + std::to_string(tensor) + std::move(name), tensor * pipeline * data, how));
    all.back().tensor = tensor;
    all.back().pipeline = pipeline;
  };
  parts("", 2, 1, 1, ddp);
  parts("", 4, 1, 1, ddp);
  parts(" × ddp 2", 2, 1, 2, ddp);
  parts(" × pipeline 2 × ddp 2", 2, 2, 2, ddp);
  for (const std::int64_t stage : {1, 3})
    parts(" × pipeline 2 × zero stage " + std::to_string(stage) + " 2", 2, 2, 2, zero(stage));
  const auto with_shared_tokens = [&](std::string name, std::int64_t tensor, std::int64_t others, auto how) {
    parts(std::move(name), tensor, 1, others, how);
    all.back().sequence_parallel = true;
  };
  with_shared_tokens(", sequence parallel", 2, 1, ddp);
  with_shared_tokens(", sequence parallel", 4, 1, ddp);
  with_shared_tokens(", sequence parallel × zero stage 3 2", 2, 2, zero(3));
  const auto tokens = [&](std::string name, std::int64_t context, std::int64_t others, auto how) {
    all.push_back(kind("context " + std::to_string(context) + std::move(name), context * others, how));
    all.back().context = context;
  };
  tokens("", 2, 1, ddp);
  tokens("", 4, 1, ddp);
  tokens(" × ddp 2", 2, 2, ddp);
  for (const std::int64_t stage : {1, 3}) tokens(" × zero stage " + std::to_string(stage) + " 2", 2, 2, zero(stage));
  tokens(" × tensor 2 × pipeline 2", 2, 4, ddp);
  all.back().tensor = 2;
  all.back().pipeline = 2;
  return all;
}

/// Whether a row has this column: a pipeline doesn't synchronise BatchNorm, four stages need as many blocks, and
/// neither convolutions nor images are split.
bool has(const Kind& kind, const Setting& setting) {
  if (kind.tensor * kind.context > 1 && !setting.language_model) return false;
  const bool is_deep = config::facts_of(kind.schedule).stages_per_rank > 1;
  return kind.pipeline == 1 || (!setting.batch_norm && (setting.language_model || !is_deep));
}

/// What a run has besides. `overflows`: fp16's loss scaling, and one sample that overflows on the rank that has it.
struct Condition {
  std::string name;
  Setting setting;
  bool overflows = false;
  bool is_bitwise = false;  // compared with the same ranks without it
};

std::vector<Condition> conditions() {
  Setting recomputed{.language_model = true, .num_heads = 4, .dropout = 0.2};
  recomputed.recomputation.blocks = activation_checkpointing::FullCheckpointingConfig{};
  return {{.name = "accumulation", .setting = {.micro_batches = 2, .clip_norm = std::nullopt}},
          {.name = "clipping", .setting = {.clip_norm = 0.05}},
          {.name = "fp16 scaling, overflow", .setting = {}, .overflows = true},
          {.name = "BatchNorm", .setting = {.batch_norm = true}},
          {.name = "dropout, tied weights", .setting = {.language_model = true, .num_heads = 4, .dropout = 0.2}},
          {.name = "accumulation, clipping, tied weights",
           .setting = {.micro_batches = 2, .clip_norm = 0.05, .language_model = true, .num_heads = 4}},
          {.name = "ragged batch", .setting = {.num_samples = 97}},
          {.name = "checkpointing", .setting = recomputed, .is_bitwise = true}};
}

/// The sample that overflows is number 30 of the first epoch: in the second step.
void plant_overflow(Run& run) {
  run.experiment.amp.mode = amp::Precision::fp16;
  run.experiment.amp.loss_scaling = amp::DynamicScalingConfig{.init_scale = 1024};
  run.scaler = amp::LossScaler(run.experiment.amp, run.device);
  run.data.train = std::make_unique<ChangedLoader>(std::move(run.data.train), [](dataset::Batch& batch) {
    const std::int64_t row = 30 - batch.first_sample;
    if (batch.epoch == 0 && row >= 0 && row < batch.size())
      batch.inputs[row].fill_(std::numeric_limits<double>::infinity());
  });
}

Result steps_of(Run& run, const Condition& condition, at::ScalarType dtype) {
  if (condition.overflows) plant_overflow(run);
  Result result = ten_steps(run, dtype);
  if (condition.overflows && run.num_skipped.item<double>() != 1)
    throw std::runtime_error("the overflow didn't skip one step");
  return result;
}

Result first_rank(const Kind& kind, const Condition& condition, at::ScalarType dtype) {
  Setting setting = condition.setting;
  setting.how = setting.batch_norm ? kind.with_synchronised_batch_norm : kind.how;
  setting.pipeline = kind.pipeline;
  setting.schedule = kind.schedule;
  setting.tensor = kind.tensor;
  setting.sequence_parallel = kind.sequence_parallel;
  setting.context = kind.context;
  Result first;
  on_ranks(kind.world_size, [&](std::size_t rank, comm::Group& group) {
    Result mine = steps_of(*build_rank(setting, kind.world_size, group), condition, dtype);
    if (rank == 0) first = std::move(mine);
  });
  return first;
}

std::string header() {
  std::string names = "|  |";
  std::string rule = "| --- |";
  for (const Condition& condition : conditions()) {
    names += " " + condition.name + " |";
    rule += " --- |";
  }
  return names + "\n" + rule + "\n";
}

}  // namespace

TEST_CASE("ten steps equal those of one process, however the work is shared and whatever the step has",
          "[train][dist][equality][sweep]") {
  std::string table = header();
  std::map<std::string, Result> alone;
  for (const Kind& kind : table_kinds()) {
    table += "| " + kind.name + " |";
    for (const Condition& condition : conditions()) {
      CAPTURE(kind.name, condition.name);
      if (!has(kind, condition.setting)) {
        table += " – |";
        continue;
      }
      std::string cell;
      for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
        // Autocast leaves doubles alone: what loss scaling and skipping do can be shown without fp16's rounding.
        if (condition.overflows && dtype == at::kFloat) continue;
        Condition reference = condition;
        if (condition.is_bitwise) reference.setting.recomputation = {};
        const std::string key = condition.name + c10::toString(dtype);
        if (!condition.is_bitwise && !alone.contains(key))
          alone[key] = steps_of(*build_run(experiment_of(condition.setting, 1)), condition, dtype);
        const double gap = largest_gap(first_rank(kind, condition, dtype),
                                       condition.is_bitwise ? first_rank(kind, reference, dtype) : alone.at(key));
        CHECK(gap <= (condition.is_bitwise ? 0 : dtype == at::kDouble ? 1e-12 : 2e-5));
        cell += (cell.empty() ? "" : ", ") + cell_text(gap);
      }
      table += " " + cell + " |";
    }
    table += "\n";
  }
  save_page("equality.md",
            "# Equality with one process\n\n"
            "Written by the test run: `TRAINCTL_EQUALITY_TABLE=docs/equality.md build/release/bin/test_train "
            "\"[equality]\"`.\n\n"
            "The largest difference of any parameter, optimizer state or loss after ten steps of AdamW from one "
            "process with the whole\n"
            "batch, in fp64 and in fp32 (bounds 1e-12 and 2e-5; loss scaling in fp64 alone). Activation checkpointing "
            "is compared with\n"
            "the same ranks without it, and its bound is 0. Ranks are threads of one process here; processes give the "
            "same bits.\n"
            "[Transformers in parts](transformer_equality.md) have a table of their own.\n\n" +
                table);
}

}  // namespace trainctl::train
