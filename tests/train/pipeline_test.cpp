// Pipelines of stages, against one process with the whole model.
#include <functional>

#include "ranks.h"
#include "train/loop/trainer.h"
#include "train/run/restore.h"

namespace trainctl::train {

using namespace testing;

namespace {

/// A network, its stages and the rest of a step.
struct StageLayout {
  std::string name;
  std::int64_t pipeline = 2;
  std::int64_t data = 1;
  distributed::PipelineScheduleConfig schedule = distributed::OneFOneBConfig{};
  distributed::PipelineSplitConfig split{};
  distributed::DistributedKindConfig how = distributed::DdpConfig{};
  std::function<void(experiment::Experiment&)> change{};  // of the run of one process too
};

experiment::Experiment staged_experiment(const Setting& setting, const StageLayout& layout) {
  experiment::Experiment experiment = experiment_of(setting, layout.data);
  experiment.distributed.how = layout.how;
  experiment.distributed.pipeline = layout.pipeline;
  experiment.distributed.pipeline_schedule = layout.schedule;
  experiment.distributed.pipeline_split = layout.split;
  if (layout.change) layout.change(experiment);
  return experiment;
}

/// The run of one rank, in double precision; laid out once it has doubles.
std::unique_ptr<Run> build_stage(const Setting& setting, const StageLayout& layout, comm::Group& group) {
  std::vector<tracking::Notice> notices;
  experiment::Experiment experiment = staged_experiment(setting, layout);
  experiment.distributed.how = distributed::DdpConfig{};
  std::unique_ptr<Run> run = build(
      experiment, notices, {.group = &group, .local_world_size = group.size(), .global_batch = setting.global_batch});
  run->experiment.distributed.how = layout.how;
  return run;
}

Result steps_of_layout(const Setting& setting, const StageLayout& layout, at::ScalarType dtype) {
  Result first;
  on_ranks(layout.pipeline * layout.data, [&](std::size_t rank, comm::Group& group) {
    Result mine = ten_steps(*build_stage(setting, layout, group), dtype);
    if (rank == 0) first = std::move(mine);
  });
  return first;
}

void check_pipeline(const Setting& setting, const StageLayout& layout) {
  CAPTURE(layout.name, layout.pipeline, layout.data, std::string(layout.how.kind()));
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    experiment::Experiment one = experiment_of(setting, 1);
    if (layout.change) layout.change(one);
    const Result alone = ten_steps(*build_run(one), dtype);
    const Result staged = steps_of_layout(setting, layout, dtype);
    REQUIRE(staged.weights.size() == alone.weights.size());
    const double bound = dtype == at::kDouble ? 1e-12 : 2e-5;
    CHECK(largest_difference(staged.weights, alone.weights) <= bound);
    for (std::size_t i = 0; i < alone.losses.size(); ++i) CHECK(std::abs(staged.losses[i] - alone.losses[i]) <= bound);
    REQUIRE(staged.metrics.size() == alone.metrics.size());
    for (std::size_t i = 0; i < alone.metrics.size(); ++i)
      CHECK(staged.metrics[i].second == Approx(alone.metrics[i].second).epsilon(dtype == at::kDouble ? 1e-11 : 1e-4));
  }
}

std::vector<StageLayout> schedules(std::int64_t pipeline) {
  return {{.name = "1f1b", .pipeline = pipeline},
          {.name = "gpipe", .pipeline = pipeline, .schedule = distributed::GpipeConfig{}},
          {.name = "interleaved", .pipeline = pipeline, .schedule = distributed::InterleavedConfig{}},
          {.name = "zbv", .pipeline = pipeline, .schedule = distributed::ZeroBubbleVConfig{}}};
}

/// GPT-2 with three blocks between its embeddings and its head, whose weight is the embeddings'.
Setting tied() {
  return {.micro_batches = 4, .clip_norm = 0.5, .language_model = true, .dropout = 0.2};
}

}  // namespace

TEST_CASE("a pipeline makes the steps of one process, in every schedule", "[train][dist][pipeline]") {
  for (const StageLayout& layout : schedules(2)) check_pipeline(tied(), layout);
  for (StageLayout layout : schedules(4)) {
    layout.change = [](experiment::Experiment& experiment) {
      std::get<model::Gpt2Config>(experiment.model.network.value).num_layers = 7;
    };
    check_pipeline(tied(), layout);
  }
}

TEST_CASE("a pipeline's copies and shards make the steps of one process", "[train][dist][pipeline]") {
  for (StageLayout layout : schedules(2)) {
    layout.data = 2;
    for (const distributed::DistributedKindConfig& how :
         {distributed::DistributedKindConfig(distributed::DdpConfig{.bucket_mib = 0.001}),
          distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 1}),
          distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 2}),
          distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 3})}) {
      layout.how = how;
      check_pipeline(tied(), layout);
    }
  }
}

TEST_CASE("stages may be unequal, and an epoch may end within a step", "[train][dist][pipeline]") {
  StageLayout by_hand{.name = "by hand"};
  by_hand.split = distributed::SplitByHandConfig{.blocks = {4, 1}};
  check_pipeline(tied(), by_hand);
  StageLayout by_count{.name = "by count", .pipeline = 3, .split = distributed::SplitByCountConfig{}};
  check_pipeline(tied(), by_count);
  Setting ragged = tied();
  ragged.num_samples = 97;
  for (const StageLayout& layout : schedules(2)) check_pipeline(ragged, layout);
  StageLayout copies{.name = "ragged copies", .data = 2};
  check_pipeline(ragged, copies);
}

TEST_CASE("activations of a stage are recomputed", "[train][dist][pipeline]") {
  Setting recomputed = tied();
  recomputed.recomputation.blocks = activation_checkpointing::FullCheckpointingConfig{};
  for (const StageLayout& layout : schedules(2)) check_pipeline(recomputed, layout);
}

TEST_CASE("other networks go through a pipeline: images, and a head with its own weight", "[train][dist][pipeline]") {
  Setting images{.micro_batches = 4, .dropout = 0.2};
  check_pipeline(images, {.name = "cnn"});
  const auto llama = [](experiment::Experiment& experiment) {
    experiment.model.network = model::LlamaConfig{.hidden_size = 16,
                                                  .num_layers = 3,
                                                  .num_heads = 4,
                                                  .num_key_value_heads = std::int64_t{2},
                                                  .intermediate_size = std::int64_t{32}};
  };
  check_pipeline(tied(), {.name = "llama", .pipeline = 4, .change = llama});
}

namespace {

/// Model and optimizer after three steps of one layout, and as another layout restores them.
struct Moved {
  std::vector<at::Tensor> before;
  std::vector<at::Tensor> after;
};

Moved moved(const StageLayout& from, const StageLayout& to) {
  const TemporaryDirectory directory;
  Moved result;
  std::filesystem::path saved;
  for (const bool restores : {false, true}) {
    const StageLayout& layout = restores ? to : from;
    const std::int64_t size = layout.pipeline * layout.data;
    on_ranks(size, [&](std::size_t rank, comm::Group& group) {
      std::vector<tracking::Notice> notices;
      experiment::Experiment experiment = staged_experiment(tied(), layout);
      experiment.optimizer.ema = optimizer::EmaConfig{.decay = 0.9};
      experiment.train.steps = restores ? 4 : 3;
      const std::unique_ptr<Run> run =
          build(experiment, notices, {.group = &group, .local_world_size = size, .global_batch = tied().global_batch});
      EventLog log;
      if (!restores) {
        const StopSignal stop;
        Trainer(*run, log, stop, {.run_directory = directory.path(), .config = {}}).run();
      } else {
        restore(*run, saved, {}, log);
      }
      MapState state = state_of(*run);
      std::vector<at::Tensor> all;
      for (const auto& [name, tensor] : state.tensors) all.push_back(tensor);
      if (rank == 0) (restores ? result.after : result.before) = std::move(all);
    });
    saved = step_directory_of(directory.path());
  }
  return result;
}

}  // namespace

TEST_CASE("a pipeline's state restores exactly in any layout, and any layout's in a pipeline",
          "[train][dist][pipeline]") {
  const StageLayout alone{.name = "alone", .pipeline = 1};
  const StageLayout row{.name = "2 stages"};
  const StageLayout square{.name = "2 stages, sharded", .data = 2, .how = distributed::ZeroConfig{.stage = 3}};
  const StageLayout v{.name = "zbv", .schedule = distributed::ZeroBubbleVConfig{}};
  const StageLayout shards{.name = "shards", .pipeline = 1, .data = 3, .how = distributed::ZeroConfig{.stage = 2}};
  for (const auto& [from, to] : {std::pair(row, alone), std::pair(alone, row), std::pair(square, alone),
                                 std::pair(square, v), std::pair(v, shards), std::pair(shards, square)}) {
    CAPTURE(from.name, to.name);
    const Moved state = moved(from, to);
    REQUIRE(state.before.size() == state.after.size());
    CHECK(largest_difference(state.before, state.after) == 0);
  }
}

TEST_CASE("a layout that can't be is refused with those that can", "[train][dist][pipeline]") {
  const auto build_with = [](std::int64_t ranks, const StageLayout& layout) {
    on_ranks(ranks, [&](std::size_t, comm::Group& group) {
      std::vector<tracking::Notice> notices;
      build(staged_experiment(tied(), layout), notices, {.group = &group, .local_world_size = ranks});
    });
  };
  CHECK_THROWS_WITH(build_with(3, {.pipeline = 2}), Catch::Contains("pipeline is 2, which doesn't divide the 3 ranks"));
  CHECK_THROWS_WITH(build_with(6, {.pipeline = 6}), Catch::Contains("6 stages, and the model only 5 blocks"));
  CHECK_THROWS_WITH(build_with(2, {.split = distributed::SplitByHandConfig{.blocks = {3, 3}}}),
                    Catch::Contains("deals 6 blocks to 2 stages, and the model has 5 blocks for 2 stages"));
}

}  // namespace trainctl::train
