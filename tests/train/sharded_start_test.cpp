// What ranks with parts of the parameters begin with, and averages of weights in parts.
#include <ATen/autocast_mode.h>

#include <array>

#include "ranks.h"
#include "runtime/memory.h"

namespace trainctl::train {

using namespace testing;

namespace {

/// Whole weights by name, of a run as build() leaves it.
std::map<std::string, at::Tensor> first_weights(const experiment::Experiment& experiment, std::int64_t world_size) {
  std::map<std::string, at::Tensor> weights;
  on_ranks(world_size, [&](std::size_t rank, comm::Group& group) {
    std::vector<tracking::Notice> notices;
    const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = world_size});
    const MapState state = state_of(*run);
    if (rank == 0) weights = state.tensors;
  });
  return weights;
}

void check_first_weights(experiment::Experiment experiment) {
  experiment.distributed.how = distributed::DdpConfig{};
  const std::map<std::string, at::Tensor> alone = first_weights(experiment, 1);
  for (const std::int64_t world_size : {2, 3}) {
    experiment.distributed.how = distributed::ZeroConfig{.stage = 3};
    const std::map<std::string, at::Tensor> parts = first_weights(experiment, world_size);
    REQUIRE(parts.size() == alone.size());
    for (const auto& [name, tensor] : alone) {
      CAPTURE(name);
      CHECK(parts.at(name).equal(tensor));
    }
  }
}

}  // namespace

TEST_CASE("ranks with parts of the parameters begin with the bits of one process", "[train][dist]") {
  check_first_weights(experiment_of({}, 1));
  check_first_weights(experiment_of({.language_model = true}, 1));
  experiment::Experiment adapters = experiment_of({.language_model = true}, 1);
  adapters.model.lora = model::LoraConfig{};
  check_first_weights(adapters);
}

TEST_CASE("ranks with parts of the parameters begin with published weights", "[train][dist]") {
  const TemporaryDirectory directory;
  experiment::Experiment experiment = experiment_of({.language_model = true}, 1);
  experiment.model.init_from = write_other_weights(directory, experiment);
  check_first_weights(experiment);
}

TEST_CASE("stage 3 never has the whole model in a rank's memory, not even at the start", "[train][dist]") {
  constexpr std::int64_t kRanks = 4;
  double peak = 0;
  on_ranks(kRanks, [&](std::size_t rank, comm::Group& group) {
    experiment::Experiment experiment = experiment_of({.global_batch = 8, .language_model = true}, kRanks);
    experiment.distributed.how = distributed::ZeroConfig{.stage = 3};
    experiment.dataset.source =
        dataset::SyntheticTokensConfig{.num_samples = 64, .num_eval_samples = 0, .seq_len = 8, .vocab_size = 200};
    experiment.model.network =
        model::Gpt2Config{.hidden_size = 128, .num_layers = 12, .num_heads = 2, .max_position_embeddings = 8};
    experiment.optimizer.rule = optimizer::SgdConfig{};
    group.barrier();
    const double before = static_cast<double>(runtime::host_memory().current);
    if (rank == 0) runtime::reset_host_peak();
    group.barrier();
    std::vector<tracking::Notice> notices;
    const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = kRanks});
    group.barrier();
    if (rank == 0)
      peak = (static_cast<double>(runtime::host_memory().peak) - before) / kRanks /
             (static_cast<double>(model::num_parameters(*run->model)) * sizeof(float));
    group.barrier();
  });
  CHECK(peak < 1.0 / kRanks + 0.35);  // its part, and a block of twelve twice
}

TEST_CASE("averages of weights in parts are those of one process, evaluated and saved", "[train][dist]") {
  const auto trained = [](const distributed::DistributedKindConfig& how, std::int64_t world_size) {
    std::map<std::string, at::Tensor> state;
    task::Metrics metrics;
    on_ranks(world_size, [&](std::size_t rank, comm::Group& group) {
      Setting setting;
      setting.how = how;
      std::vector<tracking::Notice> notices;
      experiment::Experiment experiment = experiment_of(setting, world_size);
      experiment.optimizer.ema = optimizer::EmaConfig{.decay = 0.8};
      const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = world_size});
      Step step(*run);
      for (int i = 0; i < 6; ++i) step(GradNorm::only_to_clip);
      EventLog log;
      const task::Metrics mine = evaluate(*run, log).metrics;
      const MapState whole = state_of(*run);
      if (rank == 0) {
        state = whole.tensors;
        metrics = mine;
      }
    });
    return std::pair(state, metrics);
  };
  const auto [expected, expected_metrics] = trained(distributed::NotDistributedConfig{}, 1);
  REQUIRE(std::any_of(expected.begin(), expected.end(),
                      [](const auto& named) { return named.first.starts_with("ema.average."); }));
  for (const std::int64_t stage : {1, 2, 3}) {
    for (const auto& [world_size, shard] : {std::pair<std::int64_t, std::int64_t>(3, 3), {4, 2}}) {
      CAPTURE(stage, world_size, shard);
      const auto [state, metrics] = trained(distributed::ZeroConfig{.stage = stage, .shard = shard}, world_size);
      REQUIRE(state.size() == expected.size());
      for (const auto& [name, tensor] : expected) {
        CAPTURE(name);
        CHECK(tensor.sub(state.at(name)).abs().max().item<double>() < 2e-5);
      }
      for (std::size_t i = 0; i < metrics.size(); ++i)
        CHECK(metrics[i].second == Approx(expected_metrics[i].second).margin(1e-4));
    }
  }
}

TEST_CASE("ranks with parts of the parameters keep no 16-bit copies of all, in training and evaluation alike",
          "[train][dist]") {
  for (const auto& [how, keeps] : {std::pair<distributed::DistributedKindConfig, bool>(distributed::DdpConfig{}, true),
                                   {distributed::ZeroConfig{.stage = 2}, true},
                                   {distributed::ZeroConfig{.stage = 3}, false}}) {
    experiment::Experiment experiment = experiment_of({.how = how}, 2);
    experiment.amp.mode = amp::Precision::bf16;
    std::array<bool, 2> kept{!keeps, !keeps};
    on_ranks(2, [&, keeps = keeps](std::size_t rank, comm::Group& group) {
      std::vector<tracking::Notice> notices;
      const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = 2});
      const amp::Autocast autocast = run->autocast();
      kept[rank] = at::autocast::is_autocast_cache_enabled();
    });
    CHECK(kept == std::array{keeps, keeps});
  }
}

}  // namespace trainctl::train
