// Runs whose ranks are threads of this process.
#pragma once

#include <ATen/ops/as_strided.h>  // before Catch: LibTorch has a CHECK too

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "checkpoint/gather_texts.h"
#include "checkpoint/safetensors.h"
#include "double_run.h"
#include "small_run.h"
#include "support/map_state.h"
#include "train/loop/evaluate.h"
#include "train/loop/step.h"
#include "train/run/replicas.h"

namespace trainctl::testing {

/// Calls `work(rank, group)` on a thread for each rank; the failure that came first is rethrown.
template <class Work>
void on_ranks(std::int64_t world_size, const Work& work) {
  train::train_replicas(world_size, std::chrono::seconds(60), [&](const train::RankContext& place) {
    const RetiredMeshes retired;
    work(static_cast<std::size_t>(place.local_rank), *place.group);
    return 0;
  });
}

struct Setting {
  std::int64_t global_batch = 24;
  std::int64_t num_samples = 240;
  std::int64_t micro_batches = 1;
  std::optional<double> clip_norm = 1.0;
  bool batch_norm = false;
  bool language_model = false;
  std::int64_t num_heads = 2;  // of a language model
  double dropout = 0;
  activation_checkpointing::ActivationCheckpointingConfig recomputation{};
  std::int64_t batch_size = 0;  // of a rank, where that doesn't divide the global batch; 0: it does
  distributed::DistributedKindConfig how = distributed::DdpConfig{};
  std::int64_t pipeline = 1;  // of the ranks are a row of stages; the others are its copies
  std::int64_t tensor = 1;    // ranks share each layer
  bool sequence_parallel = false;
  std::int64_t context = 1;  // ranks share each sequence
  distributed::PipelineScheduleConfig schedule{};
  std::vector<std::string> freeze{};
  std::vector<optimizer::ParameterGroupConfig> param_groups{};
  std::optional<double> layer_decay{};
};

inline experiment::Experiment experiment_of(const Setting& setting, std::int64_t world_size) {
  experiment::Experiment experiment = small_experiment();
  experiment.device.num_threads = std::int64_t{1};
  experiment.dataset.source = dataset::SyntheticImagesConfig{.num_samples = setting.num_samples,
                                                             .num_eval_samples = 50,
                                                             .channels = 1,
                                                             .height = 8,
                                                             .width = 8,
                                                             .num_classes = 4};
  const std::int64_t copies =
      std::max<std::int64_t>(1, world_size / setting.pipeline / setting.tensor / setting.context);
  experiment.dataset.batch_size = world_size > 1 && setting.batch_size > 0
                                      ? setting.batch_size
                                      : setting.global_batch / copies / setting.micro_batches;
  experiment.accumulation.steps = setting.micro_batches;
  experiment.model.network =
      model::CnnConfig{.channels = {4, 8}, .batch_norm = setting.batch_norm, .hidden = 16, .dropout = setting.dropout};
  experiment.optimizer.rule = optimizer::AdamWConfig{};
  experiment.optimizer.weight_decay = 0.01;
  experiment.optimizer.clip_norm = setting.clip_norm;
  if (setting.language_model) {
    experiment.dataset.source = dataset::SyntheticTokensConfig{
        .num_samples = setting.num_samples, .num_eval_samples = 50, .seq_len = 16, .vocab_size = 40};
    experiment.model.network = model::Gpt2Config{.hidden_size = 16,
                                                 .num_layers = 3,
                                                 .num_heads = setting.num_heads,
                                                 .dropout = setting.dropout,
                                                 .attention_dropout = setting.dropout};
    experiment.task = task::CausalLmConfig{};
  }
  experiment.model.freeze = setting.freeze;
  experiment.optimizer.param_groups = setting.param_groups;
  experiment.optimizer.layer_decay = setting.layer_decay;
  experiment.activation_checkpointing = setting.recomputation;
  if (world_size > 1) {
    experiment.distributed.how = setting.how;
    experiment.distributed.pipeline = setting.pipeline;
    experiment.distributed.tensor = setting.tensor;
    experiment.distributed.sequence_parallel = setting.sequence_parallel;
    experiment.distributed.context = setting.context;
    experiment.distributed.pipeline_schedule = setting.schedule;
  }
  return experiment;
}

struct Result {
  std::vector<at::Tensor> weights;
  std::vector<double> losses;  // of each step, the mean
  task::Metrics metrics;
};

/// Laid over the ranks later, in double precision too.
inline std::unique_ptr<train::Run> build_rank(const Setting& setting, std::int64_t world_size, comm::Group& group) {
  std::vector<tracking::Notice> notices;
  experiment::Experiment experiment = experiment_of(setting, world_size);
  experiment.distributed.how = distributed::NotDistributedConfig{};
  if (setting.pipeline * setting.tensor * setting.context > 1)
    experiment.distributed.how = distributed::DdpConfig{};  // not alone
  std::unique_ptr<train::Run> run = train::build(
      experiment, notices, {.group = &group, .local_world_size = world_size, .global_batch = setting.global_batch});
  run->experiment.distributed.how = setting.how;
  return run;
}

/// The parts of all ranks, which are threads of this process, become whole tensors. Called by all.
inline void gather_parts(MapState& mine, comm::Group& group) {
  const auto address = reinterpret_cast<std::uintptr_t>(&mine);
  MapState wholes;
  for (const std::string& text : checkpoint::gather_texts(group, std::to_string(address)))
    wholes.add_parts_of(*reinterpret_cast<const MapState*>(std::stoull(text)));
  group.barrier();
  mine.tensors.merge(wholes.tensors);
  mine.parts.clear();
}

/// Model and optimizer as a checkpoint has them.
inline std::vector<at::Tensor> whole_weights(train::Run& run) {
  MapState state;
  run.parallel->visit_state(state, *run.optimizer);
  gather_parts(state, run.mesh->world());
  std::vector<at::Tensor> all;
  for (const auto& [name, tensor] : state.tensors) all.push_back(tensor);
  return all;
}

inline Result ten_steps(train::Run& run, at::ScalarType dtype) {
  if (dtype == at::kDouble)
    make_double(run);
  else
    lay_out(run);
  train::Step step(run);
  Result result;
  for (int i = 0; i < 10; ++i) {
    const train::StepResult one = step(train::GradNorm::measure);
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

inline std::vector<Result> on_ranks(const Setting& setting, std::int64_t world_size, at::ScalarType dtype) {
  std::vector<Result> results(static_cast<std::size_t>(world_size));
  on_ranks(world_size, [&](std::size_t rank, comm::Group& group) {
    results[rank] = ten_steps(*build_rank(setting, world_size, group), dtype);
  });
  return results;
}

inline Result alone_with(const Setting& setting, at::ScalarType dtype) {
  return ten_steps(*build_run(experiment_of(setting, 1)), dtype);
}

inline double largest_gap(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

inline void check_equal_to_one_process(const Setting& setting, std::int64_t world_size) {
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

/// All of a run's state, whole; called by all.
inline MapState state_of(train::Run& run) {
  MapState state = MapState::of(run);
  gather_parts(state, run.mesh->world());
  return state;
}

/// How ranks may share the work.
inline std::vector<distributed::DistributedKindConfig> kinds() {
  return {distributed::DdpConfig{}, distributed::ZeroConfig{.stage = 1}, distributed::ZeroConfig{.stage = 2},
          distributed::ZeroConfig{.stage = 3}};
}

/// The largest difference of any parameter, optimizer state or loss. Losses that are finite in neither don't count.
inline double largest_gap(const Result& a, const Result& b) {
  double gap = largest_difference(a.weights, b.weights);
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    if (std::isfinite(a.losses[i]) || std::isfinite(b.losses[i]))
      gap = std::max(gap, std::abs(a.losses[i] - b.losses[i]));
  return gap;
}

/// Writes a page of docs/ beside docs/equality.md, if TRAINCTL_EQUALITY_TABLE names that.
inline void save_page(const std::string& name, const std::string& text) {
  const char* equality = std::getenv("TRAINCTL_EQUALITY_TABLE");
  if (equality == nullptr) return;
  std::ofstream file(std::filesystem::path(equality).parent_path() / name);
  file << text;
  CHECK(file.flush());
}

/// "4e-16", as the tables of equality show it.
inline std::string cell_text(double gap) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), gap == 0 ? "0" : "%.0e", gap);
  return text.data();
}

/// Writes the first weights of a run with another seed, without those whose name has `left_out`; returns the file.
inline std::string write_other_weights(const TemporaryDirectory& directory, experiment::Experiment experiment,
                                       const std::string& left_out = "no name") {
  experiment.seed += 1;
  const std::unique_ptr<train::Run> other = build_run(experiment);
  checkpoint::TensorMap tensors;
  for (const model::NamedTensor& named : model::named_parameters(*other->model))
    if (named.name.find(left_out) == std::string::npos) tensors.emplace(named.name, named.tensor.detach());
  const std::filesystem::path file = directory.path() / "model.safetensors";
  checkpoint::write_safetensors(file, tensors, {}, core::Durability::process);
  return file.string();
}

}  // namespace trainctl::testing
