// Pipelines of stages, against one process with the whole model.
#include "model_layout.h"

namespace trainctl::train {

using namespace testing;

namespace {

std::vector<ModelLayout> schedules(std::int64_t pipeline) {
  return {{.name = "1f1b", .pipeline = pipeline},
          {.name = "gpipe", .pipeline = pipeline, .schedule = distributed::GpipeConfig{}},
          {.name = "interleaved", .pipeline = pipeline, .schedule = distributed::InterleavedConfig{}},
          {.name = "zbv", .pipeline = pipeline, .schedule = distributed::ZeroBubbleVConfig{}}};
}

}  // namespace

TEST_CASE("a pipeline makes the steps of one process, in every schedule", "[train][dist][pipeline]") {
  for (const ModelLayout& layout : schedules(2)) check_layout(tied(), layout);
  for (ModelLayout layout : schedules(4)) {
    layout.change = [](experiment::Experiment& experiment) {
      std::get<model::Gpt2Config>(experiment.model.network.value).num_layers = 7;
    };
    check_layout(tied(), layout);
  }
}

TEST_CASE("a pipeline's copies and shards make the steps of one process", "[train][dist][pipeline]") {
  for (ModelLayout layout : schedules(2)) {
    layout.data = 2;
    for (const distributed::DistributedKindConfig& how :
         {distributed::DistributedKindConfig(distributed::DdpConfig{.bucket_mib = 0.001}),
          distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 1}),
          distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 2}),
          distributed::DistributedKindConfig(distributed::ZeroConfig{.stage = 3})}) {
      layout.how = how;
      check_layout(tied(), layout);
    }
  }
}

TEST_CASE("stages may be unequal, and an epoch may end within a step", "[train][dist][pipeline]") {
  ModelLayout by_hand{.name = "by hand", .pipeline = 2};
  by_hand.split = distributed::SplitByHandConfig{.blocks = {4, 1}};
  check_layout(tied(), by_hand);
  ModelLayout by_count{.name = "by count", .pipeline = 3, .split = distributed::SplitByCountConfig{}};
  check_layout(tied(), by_count);
  Setting ragged = tied();
  ragged.num_samples = 97;
  for (const ModelLayout& layout : schedules(2)) check_layout(ragged, layout);
  ModelLayout copies{.name = "ragged copies", .pipeline = 2, .data = 2};
  check_layout(ragged, copies);
}

TEST_CASE("activations of a stage are recomputed", "[train][dist][pipeline]") {
  Setting recomputed = tied();
  recomputed.recomputation.blocks = activation_checkpointing::FullCheckpointingConfig{};
  for (const ModelLayout& layout : schedules(2)) check_layout(recomputed, layout);
}

TEST_CASE("other networks go through a pipeline: images, and a head with its own weight", "[train][dist][pipeline]") {
  Setting images{.micro_batches = 4, .dropout = 0.2};
  check_layout(images, {.name = "cnn", .pipeline = 2});
  const auto llama = [](experiment::Experiment& experiment) {
    experiment.model.network = model::LlamaConfig{.hidden_size = 16,
                                                  .num_layers = 3,
                                                  .num_heads = 4,
                                                  .num_key_value_heads = std::int64_t{2},
                                                  .intermediate_size = std::int64_t{32}};
  };
  check_layout(tied(), {.name = "llama", .pipeline = 4, .change = llama});
}

TEST_CASE("a pipeline's state restores exactly in any layout, and any layout's in a pipeline",
          "[train][dist][pipeline]") {
  const ModelLayout alone{.name = "alone"};
  const ModelLayout row{.name = "2 stages", .pipeline = 2};
  const ModelLayout square{
      .name = "2 stages, sharded", .pipeline = 2, .data = 2, .how = distributed::ZeroConfig{.stage = 3}};
  const ModelLayout v{.name = "zbv", .pipeline = 2, .schedule = distributed::ZeroBubbleVConfig{}};
  const ModelLayout shards{.name = "shards", .data = 3, .how = distributed::ZeroConfig{.stage = 2}};
  for (const auto& [from, to] : {std::pair(row, alone), std::pair(alone, row), std::pair(square, alone),
                                 std::pair(square, v), std::pair(v, shards), std::pair(shards, square)})
    check_moved(from, to);
}

TEST_CASE("a layout that can't be is refused with those that can", "[train][dist][pipeline]") {
  CHECK_THROWS_WITH(build_on(3, tied(), {.pipeline = 2}),
                    Catch::Contains("pipeline is 2, which doesn't divide the 3 ranks"));
  CHECK_THROWS_WITH(build_on(6, tied(), {.pipeline = 6}), Catch::Contains("6 stages, and the model only 5 blocks"));
  CHECK_THROWS_WITH(build_on(2, tied(), {.pipeline = 2, .split = distributed::SplitByHandConfig{.blocks = {3, 3}}}),
                    Catch::Contains("deals 6 blocks to 2 stages, and the model has 5 blocks for 2 stages"));
}

}  // namespace trainctl::train
