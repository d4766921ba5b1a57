// Runs whose ranks, threads of this process, have parts of the model or of its input: stages of a pipeline, parts of
// layers, or parts of sequences.
#pragma once

#include <functional>

#include "ranks.h"
#include "train/loop/trainer.h"
#include "train/run/restore.h"

namespace trainctl::testing {

/// How a model is laid over ranks, and which.
struct ModelLayout {
  std::string name;
  std::int64_t pipeline = 1;
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  std::int64_t context = 1;
  std::int64_t data = 1;
  distributed::PipelineScheduleConfig schedule = distributed::OneFOneBConfig{};
  distributed::PipelineSplitConfig split{};
  distributed::DistributedKindConfig how = distributed::DdpConfig{};
  std::function<void(experiment::Experiment&)> change{};  // of the run of one process too

  std::int64_t num_ranks() const { return pipeline * tensor * context * data; }
};

inline experiment::Experiment layout_experiment(const Setting& setting, const ModelLayout& layout) {
  experiment::Experiment experiment = experiment_of(setting, layout.data);
  experiment.distributed.how = layout.how;
  experiment.distributed.pipeline = layout.pipeline;
  experiment.distributed.tensor = layout.tensor;
  experiment.distributed.sequence_parallel = layout.sequence_parallel;
  experiment.distributed.context = layout.context;
  experiment.distributed.pipeline_schedule = layout.schedule;
  experiment.distributed.pipeline_split = layout.split;
  if (layout.change) layout.change(experiment);
  return experiment;
}

/// The run of one rank, in double precision; laid out once it has doubles.
inline std::unique_ptr<train::Run> build_part(const Setting& setting, const ModelLayout& layout, comm::Group& group) {
  std::vector<tracking::Notice> notices;
  experiment::Experiment experiment = layout_experiment(setting, layout);
  experiment.distributed.how = distributed::DdpConfig{};
  std::unique_ptr<train::Run> run = train::build(
      experiment, notices, {.group = &group, .local_world_size = group.size(), .global_batch = setting.global_batch});
  run->experiment.distributed.how = layout.how;
  return run;
}

inline Result steps_of_layout(const Setting& setting, const ModelLayout& layout, at::ScalarType dtype) {
  Result first;
  on_ranks(layout.num_ranks(), [&](std::size_t rank, comm::Group& group) {
    Result mine = ten_steps(*build_part(setting, layout, group), dtype);
    if (rank == 0) first = std::move(mine);
  });
  return first;
}

inline void check_layout(const Setting& setting, const ModelLayout& layout) {
  CAPTURE(layout.name, layout.pipeline, layout.tensor, layout.context, layout.data, std::string(layout.how.kind()));
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    experiment::Experiment one = experiment_of(setting, 1);
    if (layout.change) layout.change(one);
    const Result alone = ten_steps(*build_run(one), dtype);
    const Result shared = steps_of_layout(setting, layout, dtype);
    REQUIRE(shared.weights.size() == alone.weights.size());
    const double bound = dtype == at::kDouble ? 1e-12 : 2e-5;
    CHECK(largest_difference(shared.weights, alone.weights) <= bound);
    for (std::size_t i = 0; i < alone.losses.size(); ++i) CHECK(std::abs(shared.losses[i] - alone.losses[i]) <= bound);
    REQUIRE(shared.metrics.size() == alone.metrics.size());
    for (std::size_t i = 0; i < alone.metrics.size(); ++i)
      CHECK(shared.metrics[i].second == Approx(alone.metrics[i].second).epsilon(dtype == at::kDouble ? 1e-11 : 1e-4));
  }
}

/// Sets the network, and a vocabulary that two ranks don't divide.
inline std::function<void(experiment::Experiment&)> network(model::NetworkConfig network,
                                                            std::int64_t vocab_size = 41) {
  return [network = std::move(network), vocab_size](experiment::Experiment& experiment) {
    experiment.model.network = network;
    if (auto* tokens = std::get_if<dataset::SyntheticTokensConfig>(&experiment.dataset.source.value))
      tokens->vocab_size = vocab_size;
  };
}

inline model::Gpt2Config gpt2() {
  return {.hidden_size = 16, .num_layers = 2, .num_heads = 4, .dropout = 0.2, .attention_dropout = 0.1};
}

/// Grouped queries, and a head with its own weight.
inline model::LlamaConfig llama(double dropout = 0.1) {
  return {.hidden_size = 32,
          .num_layers = 2,
          .num_heads = 8,
          .num_key_value_heads = std::int64_t{4},
          .intermediate_size = std::int64_t{48},
          .attention_dropout = dropout};
}

inline Setting tokens() {
  return {.micro_batches = 2, .clip_norm = 0.5, .language_model = true};
}

/// Builds the runs of so many ranks, in the hope that the layout is refused.
inline void build_on(std::int64_t ranks, const Setting& setting, const ModelLayout& layout) {
  on_ranks(ranks, [&](std::size_t, comm::Group& group) {
    std::vector<tracking::Notice> notices;
    train::build(layout_experiment(setting, layout), notices, {.group = &group, .local_world_size = ranks});
  });
}

/// GPT-2 with three blocks between its embeddings and its head, whose weight is the embeddings'.
inline Setting tied() {
  return {.micro_batches = 4, .clip_norm = 0.5, .language_model = true, .dropout = 0.2};
}

/// Model and optimizer after three steps of one layout, and as another layout restores them.
struct Moved {
  std::vector<at::Tensor> before;
  std::vector<at::Tensor> after;
};

inline Moved moved(const ModelLayout& from, const ModelLayout& to) {
  const TemporaryDirectory directory;
  Moved result;
  std::filesystem::path saved;
  for (const bool restores : {false, true}) {
    const ModelLayout& layout = restores ? to : from;
    const std::int64_t size = layout.num_ranks();
    on_ranks(size, [&](std::size_t rank, comm::Group& group) {
      std::vector<tracking::Notice> notices;
      experiment::Experiment experiment = layout_experiment(tied(), layout);
      experiment.optimizer.ema = optimizer::EmaConfig{.decay = 0.9};
      experiment.train.steps = restores ? 4 : 3;
      const std::unique_ptr<train::Run> run = train::build(
          experiment, notices, {.group = &group, .local_world_size = size, .global_batch = tied().global_batch});
      EventLog log;
      if (!restores) {
        const train::StopSignal stop;
        train::Trainer(*run, log, stop, {.run_directory = directory.path(), .config = {}}).run();
      } else {
        train::restore(*run, saved, {}, log);
      }
      MapState state = state_of(*run);
      std::vector<at::Tensor> all;
      for (const auto& [name, tensor] : state.tensors) all.push_back(tensor);
      if (rank == 0) (restores ? result.after : result.before) = std::move(all);
    });
    saved = train::step_directory_of(directory.path());
  }
  return result;
}

/// Checks that one layout restores exactly what another saved.
inline void check_moved(const ModelLayout& from, const ModelLayout& to) {
  CAPTURE(from.name, to.name);
  const Moved state = moved(from, to);
  REQUIRE(state.before.size() == state.after.size());
  CHECK(largest_difference(state.before, state.after) == 0);
}

}  // namespace trainctl::testing
