// Ranks as threads of this process: their steps against those of one process with the whole batch.
#include <catch2/catch.hpp>
#include <csignal>
#include <exception>
#include <map>
#include <thread>

#include "cluster/world.h"
#include "double_run.h"
#include "runtime/memory.h"
#include "small_run.h"
#include "support/map_state.h"
#include "train/evaluate.h"
#include "train/step.h"

using namespace trainctl;
using namespace trainctl::testing;

namespace {

/// Calls `work(rank, group)` on a thread for each rank; the first failure is rethrown.
template <class Work>
void on_ranks(std::int64_t world_size, const Work& work) {
  std::vector<std::unique_ptr<Group>> groups = thread_groups(world_size, std::chrono::seconds(60));
  std::vector<std::exception_ptr> failures(groups.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < groups.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        work(rank, *groups[rank]);
      } catch (...) {
        failures[rank] = std::current_exception();
        groups[rank].reset();  // or the others would wait for this one
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

struct Setting {
  std::int64_t global_batch = 24;
  std::int64_t num_samples = 240;
  std::int64_t micro_batches = 1;
  std::optional<double> clip_norm = 1.0;
  bool batch_norm = false;
  bool language_model = false;
  std::int64_t batch_size = 0;  // of a rank, where that doesn't divide the global batch; 0: it does
  DistributedKindConfig how = DdpConfig{};
};

Experiment experiment_of(const Setting& setting, std::int64_t world_size) {
  Experiment experiment = small_experiment();
  experiment.device.threads = std::int64_t{1};
  experiment.dataset.source = SyntheticImagesConfig{.num_samples = setting.num_samples,
                                                    .num_eval_samples = 50,
                                                    .channels = 1,
                                                    .height = 8,
                                                    .width = 8,
                                                    .num_classes = 4};
  experiment.dataset.batch_size = world_size > 1 && setting.batch_size > 0
                                      ? setting.batch_size
                                      : setting.global_batch / world_size / setting.micro_batches;
  experiment.accumulation.steps = setting.micro_batches;
  experiment.model.network = CnnConfig{.channels = {4, 8}, .batch_norm = setting.batch_norm, .hidden = 16};
  experiment.optimizer.rule = AdamWConfig{};
  experiment.optimizer.weight_decay = 0.01;
  experiment.optimizer.clip_norm = setting.clip_norm;
  if (setting.language_model) {
    experiment.dataset.source = SyntheticTokensConfig{
        .num_samples = setting.num_samples, .num_eval_samples = 50, .length = 12, .vocab_size = 40};
    experiment.model.network =
        Gpt2Config{.hidden_size = 16, .num_layers = 3, .num_heads = 2, .dropout = 0, .attention_dropout = 0};
    experiment.task = CausalLmConfig{};
  }
  if (world_size > 1) experiment.distributed.how = setting.how;
  return experiment;
}

struct Result {
  std::vector<at::Tensor> weights;
  std::vector<double> losses;  // of each step, the mean
  Metrics metrics;
};

/// Laid over the ranks later, in double precision too.
std::unique_ptr<Run> build_rank(const Setting& setting, std::int64_t world_size, Group& group) {
  std::vector<Notice> notices;
  Experiment experiment = experiment_of(setting, world_size);
  experiment.distributed.how = NotDistributedConfig{};
  std::unique_ptr<Run> run = build(
      experiment, notices, {.group = &group, .local_world_size = world_size, .global_batch = setting.global_batch});
  run->experiment.distributed.how = setting.how;
  return run;
}

/// Model and optimizer as a checkpoint has them.
std::vector<at::Tensor> whole_weights(Run& run) {
  MapState state;
  run.parallel->visit_state(state, *run.optimizer);
  std::vector<at::Tensor> all;
  for (const auto& [name, tensor] : state.tensors) all.push_back(tensor);
  return all;
}

/// Over the ranks, by the run's config.
void lay_out(Run& run) {
  run.parallel = build(run.experiment.distributed, run.parallel->group(), *run.model);
  run.parameters = run.parallel->optimized();
  run.optimizer = build(run.experiment.optimizer, run.parameters);
}

Result ten_steps(Run& run, at::ScalarType dtype) {
  if (dtype == at::kDouble)
    make_double(run);
  else
    lay_out(run);
  Step step(run);
  Result result;
  for (int i = 0; i < 10; ++i) {
    const StepResult one = step(GradNorm::measure);
    result.losses.push_back(one.loss.item<double>() / static_cast<double>(one.count));
  }
  result.weights = whole_weights(run);
  if (dtype == at::kFloat) {
    EventLog log;
    run.parallel->share_buffers();
    result.metrics = evaluate(run, log).metrics;
  }
  return result;
}

std::vector<Result> on_ranks(const Setting& setting, std::int64_t world_size, at::ScalarType dtype) {
  std::vector<Result> results(static_cast<std::size_t>(world_size));
  on_ranks(world_size, [&](std::size_t rank, Group& group) {
    results[rank] = ten_steps(*build_rank(setting, world_size, group), dtype);
  });
  return results;
}

Result alone_with(const Setting& setting, at::ScalarType dtype) {
  return ten_steps(*build_run(experiment_of(setting, 1)), dtype);
}

double largest_gap(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

void check_equal_to_one_process(const Setting& setting, std::int64_t world_size) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    const double bound = dtype == at::kDouble ? 1e-12 : 2e-5;
    CAPTURE(world_size, setting.micro_batches, setting.num_samples, c10::toString(dtype));
    const Result alone = alone_with(setting, dtype);
    const std::vector<Result> ranks = on_ranks(setting, world_size, dtype);
    CHECK(largest_difference(ranks[0].weights, alone.weights) < bound);
    CHECK(largest_gap(ranks[0].losses, alone.losses) < bound);
    for (const Result& rank : ranks) {
      CHECK(largest_difference(rank.weights, ranks[0].weights) == 0);
      CHECK(rank.losses == ranks[0].losses);
      CHECK(rank.metrics == ranks[0].metrics);
    }
    REQUIRE(ranks[0].metrics.size() == alone.metrics.size());
    for (std::size_t i = 0; i < alone.metrics.size(); ++i)
      CHECK(ranks[0].metrics[i].second == Approx(alone.metrics[i].second).margin(1e-4));
  }
}

}  // namespace

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
  check_equal_to_one_process({.how = DdpConfig{.bucket_mib = 0.001}}, 2);
  check_equal_to_one_process({.how = DdpConfig{.static_graph = true}}, 2);
  check_equal_to_one_process({.how = DdpConfig{.find_unused_parameters = true}}, 2);
}

TEST_CASE("gradients sent in 16 bits are near the exact ones", "[train][dist]") {
  const Result exact = alone_with({}, at::kFloat);
  for (const Compression compression : {Compression::bf16, Compression::fp16}) {
    const std::vector<Result> ranks = on_ranks({.how = DdpConfig{.compression = compression}}, 2, at::kFloat);
    CHECK(largest_difference(ranks[0].weights, ranks[1].weights) == 0);
    CHECK(largest_gap(ranks[0].losses, exact.losses) < 5e-2);
    CHECK(largest_gap(ranks[0].losses, exact.losses) > 0);
  }
}

TEST_CASE("ranks stop at the same step when one of them is sent a signal", "[train][dist]") {
  on_ranks(2, [&](std::size_t rank, Group& group) {
    std::vector<Notice> notices;
    const std::unique_ptr<Run> run = build(experiment_of({}, 2), notices, {.group = &group, .local_world_size = 2});
    Step step(*run);
    if (step(GradNorm::only_to_clip).signal != 0) throw std::runtime_error("nobody was sent a signal");
    if (step(GradNorm::only_to_clip, rank == 1 ? SIGTERM : 0).signal != SIGTERM)
      throw std::runtime_error("rank " + std::to_string(rank) + " doesn't know of the signal");
  });
}

TEST_CASE("synchronised BatchNorm equals one process with the whole batch", "[train][dist]") {
  Setting setting;
  setting.batch_norm = true;
  setting.how = DdpConfig{.sync_batch_norm = true};
  check_equal_to_one_process(setting, 2);
  check_equal_to_one_process(setting, 3);
  setting.num_samples = 97;  // the last sample of an epoch is one rank's
  check_equal_to_one_process(setting, 4);
}

TEST_CASE("without synchronisation ranks evaluate with the first one's statistics, or with their mean",
          "[train][dist]") {
  for (const BufferPolicy policy : {BufferPolicy::first, BufferPolicy::average}) {
    Setting setting;
    setting.batch_norm = true;
    setting.how = DdpConfig{.buffers = policy};
    const std::vector<Result> ranks = on_ranks(setting, 2, at::kFloat);
    CHECK(largest_difference(ranks[0].weights, ranks[1].weights) > 0);  // each its own, until they are shared
    CHECK(ranks[0].metrics == ranks[1].metrics);
  }
}

TEST_CASE("zero, stages 1 to 3, equals one process with the whole batch", "[train][dist]") {
  for (const std::int64_t stage : {1, 2, 3}) {
    CAPTURE(stage);
    for (const std::int64_t world_size : {2, 3})
      check_equal_to_one_process({.how = ZeroConfig{.stage = stage}}, world_size);
    check_equal_to_one_process({.micro_batches = 2, .how = ZeroConfig{.stage = stage}}, 2);
    check_equal_to_one_process({.num_samples = 97, .how = ZeroConfig{.stage = stage}}, 4);
    check_equal_to_one_process({.language_model = true, .how = ZeroConfig{.stage = stage}}, 2);  // tied weights
  }
  check_equal_to_one_process({.language_model = true, .how = ZeroConfig{.reshard_after_forward = false}}, 3);
}

TEST_CASE("zero with synchronised BatchNorm equals one process", "[train][dist]") {
  for (const std::int64_t stage : {1, 3})
    check_equal_to_one_process({.batch_norm = true, .how = ZeroConfig{.stage = stage, .sync_batch_norm = true}}, 2);
}

TEST_CASE("state saved on 4 ranks restores exactly on 1, 2, 3 and 8, at any stage", "[train][dist]") {
  const Setting setting{.language_model = true};
  MapState saved;
  on_ranks(4, [&](std::size_t rank, Group& group) {
    const std::unique_ptr<Run> run = build_rank({.language_model = true, .how = ZeroConfig{.stage = 3}}, 4, group);
    ten_steps(*run, at::kFloat);
    Unseen unseen;
    run->visit_state(rank == 0 ? static_cast<State&>(saved) : unseen);
  });
  const auto restored = [&](std::int64_t world_size, const DistributedKindConfig& how) {
    MapState again;
    on_ranks(world_size, [&](std::size_t rank, Group& group) {
      Setting other = setting;
      other.how = how;
      const std::unique_ptr<Run> run = build_rank(other, world_size, group);
      lay_out(*run);
      MapState mine = saved;
      mine.restore_into(*run);
      Unseen unseen;
      run->visit_state(rank == 0 ? static_cast<State&>(again) : unseen);
    });
    return again;
  };
  for (const std::int64_t world_size : {1, 2, 3, 8})
    for (const DistributedKindConfig& how :
         {DistributedKindConfig(DdpConfig{}), DistributedKindConfig(ZeroConfig{.stage = 1}),
          DistributedKindConfig(ZeroConfig{.stage = 3})}) {
      CAPTURE(world_size, how.kind());
      const MapState again = restored(world_size, how);
      CHECK(again.equals(saved));
    }
}

TEST_CASE("what a rank keeps between steps follows ZeRO's formulas", "[train][dist]") {
  constexpr std::int64_t kRanks = 4;
  const auto kept = [&](const DistributedKindConfig& how) {
    Setting setting{.global_batch = 8, .language_model = true, .how = how};
    double parameters = 0;
    double bytes = 0;
    on_ranks(kRanks, [&](std::size_t rank, Group& group) {
      group.barrier();
      const double before = static_cast<double>(host_memory().current);
      group.barrier();
      std::vector<Notice> notices;
      Experiment experiment = experiment_of(setting, kRanks);
      experiment.dataset.source =
          SyntheticTokensConfig{.num_samples = 64, .num_eval_samples = 0, .length = 8, .vocab_size = 2000};
      experiment.model.network = Gpt2Config{.hidden_size = 128,
                                            .num_layers = 4,
                                            .num_heads = 2,
                                            .max_positions = 8,
                                            .dropout = 0,
                                            .attention_dropout = 0};
      const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = kRanks});
      {
        Step step(*run);
        step(GradNorm::measure);
      }
      group.barrier();
      if (rank == 0) {
        bytes = (static_cast<double>(host_memory().current) - before) / kRanks;
        parameters = static_cast<double>(num_parameters(*run->model)) * sizeof(float);
      }
      group.barrier();
    });
    return bytes / parameters;
  };
  // In copies of the parameters: themselves, their gradients, and adamw's two averages.
  CHECK(kept(DdpConfig{}) == Approx(1 + 1 + 2).epsilon(0.05));
  CHECK(kept(ZeroConfig{.stage = 1}) == Approx(1 + 1 + 2.0 / kRanks).epsilon(0.05));
  CHECK(kept(ZeroConfig{.stage = 2}) == Approx(1 + 2.0 / kRanks).epsilon(0.05));  // gradients are gone by then
  CHECK(kept(ZeroConfig{.stage = 3}) == Approx(1.0 / kRanks + 2.0 / kRanks).epsilon(0.05));
}

TEST_CASE("a global batch that the ranks don't divide evenly is kept", "[train][dist]") {
  // As when a run of 6 ranks with 4 samples each goes on with 5: 20 samples and then the step's last 4.
  check_equal_to_one_process({.batch_size = 4}, 5);
  check_equal_to_one_process({.num_samples = 100, .batch_size = 7, .how = ZeroConfig{.stage = 2}}, 2);
}
