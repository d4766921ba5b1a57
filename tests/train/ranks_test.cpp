// Ranks as threads of this process: their steps against those of one process with the whole batch.
#include "ranks.h"

#include <array>
#include <csignal>

#include "runtime/memory.h"

namespace trainctl::train {

using namespace testing;

TEST_CASE("ddp on 2, 3 and 4 ranks equals one process with the whole batch", "[train][dist]") {
  for (const std::int64_t world_size : {2, 3, 4}) check_equal_to_one_process({}, world_size);
}

TEST_CASE("ddp with accumulation, without clipping, equals one process", "[train][dist]") {
  check_equal_to_one_process({.micro_batches = 2}, 2);
  check_equal_to_one_process({.micro_batches = 2, .clip_norm = std::nullopt}, 3);
}

TEST_CASE("ddp is exact where an epoch's last batch is ragged, and where a rank has none of it", "[train][dist]") {
  check_equal_to_one_process({.num_samples = 100}, 2);  // 24 · 4 + 4: 2 on each
  check_equal_to_one_process({.num_samples = 97}, 4);   // the last sample is one rank's
  check_equal_to_one_process({.num_samples = 90, .micro_batches = 2}, 3);
}

TEST_CASE("ddp with a static graph, small buckets, or a search for unused parameters is the same", "[train][dist]") {
  check_equal_to_one_process({.how = distributed::DdpConfig{.bucket_mib = 0.001}}, 2);
  check_equal_to_one_process({.how = distributed::DdpConfig{.static_graph = true}}, 2);
  check_equal_to_one_process({.how = distributed::DdpConfig{.find_unused_parameters = true}}, 2);
}

TEST_CASE("gradients sent in 16 bits are near the exact ones", "[train][dist]") {
  const Result exact = alone_with({}, at::kFloat);
  for (const distributed::CompressionConfig& compression :
       {distributed::CompressionConfig(distributed::Bf16CompressionConfig{}),
        distributed::CompressionConfig(distributed::Fp16CompressionConfig{})}) {
    const std::vector<Result> ranks =
        on_ranks({.how = distributed::DdpConfig{.gradient_compression = compression}}, 2, at::kFloat);
    CHECK(largest_difference(ranks[0].weights, ranks[1].weights) == 0);
    CHECK(largest_gap(ranks[0].losses, exact.losses) < 5e-2);
    CHECK(largest_gap(ranks[0].losses, exact.losses) > 0);
  }
}

TEST_CASE("ranks stop at the same step when one of them is sent a signal", "[train][dist]") {
  std::array<int, 2> before{-1, -1};
  std::array<int, 2> after{-1, -1};
  on_ranks(2, [&](std::size_t rank, comm::Group& group) {
    std::vector<tracking::Notice> notices;
    const std::unique_ptr<Run> run = build(experiment_of({}, 2), notices, {.group = &group, .local_world_size = 2});
    Step step(*run);
    before[rank] = step(GradNorm::only_to_clip).signal;
    after[rank] = step(GradNorm::only_to_clip, [&] { return rank == 1 ? SIGTERM : 0; }).signal;
  });
  CHECK(before == std::array{0, 0});
  CHECK(after == std::array{SIGTERM, SIGTERM});
}

TEST_CASE("synchronised BatchNorm equals one process with the whole batch", "[train][dist]") {
  Setting setting;
  setting.batch_norm = true;
  setting.how = distributed::DdpConfig{.sync_batch_norm = true};
  check_equal_to_one_process(setting, 2);
  check_equal_to_one_process(setting, 3);
  setting.num_samples = 97;  // the last sample of an epoch is one rank's
  check_equal_to_one_process(setting, 4);
}

TEST_CASE("without synchronisation ranks evaluate with the first one's statistics, or with their mean",
          "[train][dist]") {
  for (const distributed::SyncBuffers policy :
       {distributed::SyncBuffers::broadcast, distributed::SyncBuffers::average}) {
    Setting setting;
    setting.batch_norm = true;
    setting.how = distributed::DdpConfig{.sync_buffers = policy};
    const std::vector<Result> ranks = on_ranks(setting, 2, at::kFloat);
    CHECK(largest_difference(ranks[0].weights, ranks[1].weights) > 0);  // each its own, until they are shared
    CHECK(ranks[0].metrics == ranks[1].metrics);
  }
}

TEST_CASE("averaged statistics have the same bits on all ranks, also when they are averaged again",
          "[train][dist][regression]") {
  constexpr std::int64_t kRanks = 7;  // times a number and divided, a float isn't always itself
  Setting setting;
  setting.global_batch = 2 * kRanks;
  setting.batch_norm = true;
  setting.how = distributed::DdpConfig{.sync_buffers = distributed::SyncBuffers::average};
  std::vector<std::vector<at::Tensor>> once(kRanks), twice(kRanks);
  on_ranks(kRanks, [&](std::size_t rank, comm::Group& group) {
    const std::unique_ptr<Run> run = build_rank(setting, kRanks, group);
    lay_out(*run);
    Step step(*run);
    step(GradNorm::only_to_clip);
    for (std::vector<at::Tensor>* shared : {&once[rank], &twice[rank]}) {
      run->parallel->share_buffers();
      for (const model::NamedTensor& buffer : model::named_buffers(*run->model))
        shared->push_back(buffer.tensor.clone());
    }
  });
  for (std::size_t i = 0; i < once[0].size(); ++i) {
    for (const std::vector<at::Tensor>& of_rank : once) CHECK(of_rank[i].equal(once[0][i]));
    CHECK(twice[0][i].equal(once[0][i]));
  }
}

TEST_CASE("zero, stages 1 to 3, equals one process with the whole batch", "[train][dist]") {
  for (const std::int64_t stage : {1, 2, 3}) {
    CAPTURE(stage);
    for (const std::int64_t world_size : {2, 3})
      check_equal_to_one_process({.how = distributed::ZeroConfig{.stage = stage}}, world_size);
    check_equal_to_one_process({.micro_batches = 2, .how = distributed::ZeroConfig{.stage = stage}}, 2);
    check_equal_to_one_process({.num_samples = 97, .how = distributed::ZeroConfig{.stage = stage}}, 4);
    check_equal_to_one_process({.language_model = true, .how = distributed::ZeroConfig{.stage = stage}},
                               2);  // tied weights
  }
  check_equal_to_one_process({.language_model = true, .how = distributed::ZeroConfig{.reshard_after_forward = false}},
                             3);
}

TEST_CASE("zero with synchronised BatchNorm equals one process", "[train][dist]") {
  for (const std::int64_t stage : {1, 3})
    check_equal_to_one_process(
        {.batch_norm = true, .how = distributed::ZeroConfig{.stage = stage, .sync_batch_norm = true}}, 2);
}

TEST_CASE("what a rank keeps between steps follows ZeRO's formulas", "[train][dist]") {
  constexpr std::int64_t kRanks = 4;
  const auto kept = [&](const distributed::DistributedKindConfig& how) {
    Setting setting{.global_batch = 8, .language_model = true, .how = how};
    double parameters = 0;
    double bytes = 0;
    on_ranks(kRanks, [&](std::size_t rank, comm::Group& group) {
      group.barrier();
      const double before = static_cast<double>(runtime::host_memory().current);
      group.barrier();
      std::vector<tracking::Notice> notices;
      experiment::Experiment experiment = experiment_of(setting, kRanks);
      experiment.dataset.source =
          dataset::SyntheticTokensConfig{.num_samples = 64, .num_eval_samples = 0, .seq_len = 8, .vocab_size = 2000};
      experiment.model.network = model::Gpt2Config{.hidden_size = 128,
                                                   .num_layers = 4,
                                                   .num_heads = 2,
                                                   .max_position_embeddings = 8,
                                                   .dropout = 0,
                                                   .attention_dropout = 0};
      const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = kRanks});
      {
        Step step(*run);
        step(GradNorm::measure);
      }
      group.barrier();
      if (rank == 0) {
        bytes = (static_cast<double>(runtime::host_memory().current) - before) / kRanks;
        parameters = static_cast<double>(model::num_parameters(*run->model)) * sizeof(float);
      }
      group.barrier();
    });
    return bytes / parameters;
  };
  // In copies of the parameters: themselves, their gradients, and adamw's two averages.
  CHECK(kept(distributed::DdpConfig{}) == Approx(1 + 1 + 2).epsilon(0.05));
  CHECK(kept(distributed::ZeroConfig{.stage = 1}) == Approx(1 + 1 + 2.0 / kRanks).epsilon(0.05));
  CHECK(kept(distributed::ZeroConfig{.stage = 2}) ==
        Approx(1 + 2.0 / kRanks).epsilon(0.05));  // gradients are gone by then
  CHECK(kept(distributed::ZeroConfig{.stage = 3}) == Approx(1.0 / kRanks + 2.0 / kRanks).epsilon(0.05));
}

TEST_CASE("a global batch that the ranks don't divide evenly is kept", "[train][dist]") {
  // As when a run of 6 ranks with 4 samples each goes on with 5: 20 samples and then the step's last 4.
  check_equal_to_one_process({.batch_size = 4}, 5);
  check_equal_to_one_process({.num_samples = 100, .batch_size = 7, .how = distributed::ZeroConfig{.stage = 2}}, 2);
}

}  // namespace trainctl::train
