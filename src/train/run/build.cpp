#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "activation_checkpointing/activation_checkpointing.h"
#include "checkpoint/checkpoint.h"
#include "core/checked.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "kernels/float8_linear.h"
#include "machine/limits.h"
#include "model/layers/low_rank.h"
#include "model/placement.h"
#include "runtime/device.h"
#include "train/run/frozen_network.h"
#include "train/run/initial_weights.h"
#include "train/run/run.h"

namespace trainctl::train {
namespace {

/// Returns the group of a command that runs alone; throws Error if a launcher started several processes.
std::unique_ptr<comm::Group> group_of_one(const distributed::DistributedConfig& config) {
  if (config::traits_of(config.how).layout == distributed::Layout::alone) return comm::alone();
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && std::atol(value) > 1)
      throw core::Error("the launcher started " + std::string(value) + " processes (" + name +
                        "), but this command runs in one")
          .hint("start one process, or set distributed.kind: none to let each work alone");
  }
  return comm::alone();
}

dataset::LoaderOptions loader_options(const experiment::Experiment& experiment, c10::Device device,
                                      const comm::Group& batch_ranks, std::int64_t local_ranks,
                                      std::vector<tracking::Notice>& notices) {
  // The thread that feeds a GPU keeps one of this rank's cores; operators on a CPU keep half.
  const std::int64_t cores = std::max<std::int64_t>(1, runtime::available_cores() / local_ranks);
  return {.seed = static_cast<std::uint64_t>(experiment.seed),
          .pin_memory = !device.is_cpu(),
          .normalize_on_device = !device.is_cpu(),
          .workers = 1,
          .most_workers = device.is_cpu() ? cores / 2 : cores - 1,
          .local_ranks = local_ranks,
          .share = {.rank = batch_ranks.rank(), .world = batch_ranks.size()},
          .samples_evaluation = experiment.train.eval_steps.has_value(),
          .tell = [&notices](const std::string& text) {
            notices.push_back({tracking::Level::info, text});
          }};
}

/// Prepares the allocator, the device and its precision.
c10::Device prepare_machine(const experiment::Experiment& experiment, const RankContext& rank,
                            std::vector<tracking::Notice>& notices) {
  runtime::install_host_allocator(experiment.device);
  const c10::Device device = runtime::open_device(experiment.device, {rank.local_rank, rank.local_world_size});
  if (const std::string warning = runtime::device_warning(experiment.device); !warning.empty())
    notices.push_back({tracking::Level::warning, warning});
  amp::apply_precision(experiment.amp, device);
  if (const std::string warning = amp::precision_warning(experiment.amp, device); !warning.empty())
    notices.push_back({tracking::Level::warning, warning});
  return device;
}

bool wants_channels_last(const model::ModelConfig& config, const model::Model& model, const dataset::SampleSpec& spec) {
  if (!spec.is_image() || config.memory_format == model::MemoryFormat::contiguous) return false;
  return config.memory_format == model::MemoryFormat::channels_last || model.prefers_channels_last();
}

double scaled_lr(const experiment::Experiment& experiment, std::int64_t global_batch) {
  const optimizer::OptimizerConfig& optimizer = experiment.optimizer;
  const double ratio = static_cast<double>(global_batch) / static_cast<double>(optimizer.base_batch_size);
  switch (optimizer.lr_scaling) {
    case optimizer::LrScaling::none:
      return optimizer.lr;
    case optimizer::LrScaling::linear:
      return optimizer.lr * ratio;
    case optimizer::LrScaling::sqrt:
      return optimizer.lr * std::sqrt(ratio);
  }
  throw std::logic_error("unknown lr_scaling");
}

/// How many samples a step has, over all ranks, and micro-batches on each.
struct StepSize {
  std::int64_t global_batch = 0;
  std::int64_t micro_batches = 0;
  bool is_even = true;  // all micro-batches have dataset.batch_size samples on every rank
};

StepSize step_size(const experiment::Experiment& experiment, const comm::Group& batch_ranks, const RankContext& rank) {
  const std::int64_t per_round = experiment.dataset.samples_per_batch() * batch_ranks.size();
  const std::optional<std::int64_t> samples =
      rank.global_batch > 0 ? rank.global_batch
                            : core::checked_product({experiment.dataset.samples_per_batch(), batch_ranks.size(),
                                                     experiment.accumulation.steps});
  if (!samples || *samples >= checkpoint::kMaxStep)
    throw core::Error("dataset.batch_size x ranks x accumulation.steps is more than can be counted")
        .hint("choose smaller ones");
  return {.global_batch = *samples,
          .micro_batches = (*samples + per_round - 1) / per_round,
          .is_even = *samples % per_round == 0};
}

/// Tells of what a schedule says and a run of this length doesn't do. A warm-up as long as the run never reaches the
/// learning rate that the file names. What begins behind the last step doesn't happen.
void warn_of_schedule(const optimizer::ScheduleConfig& schedule, double peak_lr, const optimizer::RunLength& length,
                      std::vector<tracking::Notice>& notices) {
  const auto warn = [&](const std::string& what) {
    notices.push_back({tracking::Level::warning, "optimizer.lr_scheduler" + what});
  };
  const bool counts_epochs = schedule.interval == optimizer::LrInterval::epoch;
  const std::int64_t units =
      counts_epochs ? (length.total_steps + length.steps_per_epoch - 1) / length.steps_per_epoch : length.total_steps;
  const std::string run = ", and the run has " + core::format_count(units) + (counts_epochs ? " epochs" : " steps");
  if (schedule.warmup > 0 && schedule.warmup >= units)
    return warn(".warmup takes " + core::format_count(schedule.warmup) + run + ": it never reaches optimizer.lr");
  if (const auto* steps = schedule.shape.get_if<optimizer::MultistepScheduleConfig>();
      steps != nullptr && steps->milestones.back() + schedule.warmup >= units)
    return warn(".milestones go up to " + core::format_count(steps->milestones.back()) + run);
  if (counts_epochs && schedule.warmup > 0 && schedule.warmup_start_factor == 0)
    warn(".warmup counts epochs and begins at 0: the first epoch changes no weight; set warmup_start_factor");
  if (const auto* plateau = schedule.shape.get_if<optimizer::PlateauScheduleConfig>()) {
    if (plateau->min_lr >= peak_lr)
      warn(".min_lr is " + core::format_metric(plateau->min_lr) + ", and the learning rate " +
           core::format_metric(peak_lr) + ": it is never reduced");
    return;
  }
  const double last = optimizer::lr_at(schedule, peak_lr, length.total_steps - 1, length);
  if (last > peak_lr)
    warn(" goes up to " + core::format_metric(last) + ", above the learning rate, " + core::format_metric(peak_lr));
  const bool is_constant = schedule.shape.get_if<optimizer::ConstantScheduleConfig>() != nullptr;
  if (last == peak_lr && !is_constant && length.total_steps > 1)
    warn(" changes nothing: the rate would change behind the last step" + run);
}

/// Tells of what blends samples of a batch that has one alone. A plan may have chosen the batch.
void warn_of_lone_samples(const experiment::Experiment& experiment, std::vector<tracking::Notice>& notices) {
  if (experiment.dataset.samples_per_batch() > 1) return;
  experiment.task.visit([&](const auto& task) {
    if constexpr (requires { task.mixup + task.cutmix; })
      if (task.mixup > 0 || task.cutmix > 0)
        notices.push_back({tracking::Level::warning,
                           "task.mixup and task.cutmix blend the samples of a batch, and each batch has one: they "
                           "change nothing"});
  });
}

/// Tells of what begins with a step that a run of this length doesn't reach. Updates are counted from 1 by `ema`, and
/// from 0 by what starts at a step of its own.
void warn_of_late_starts(const experiment::Experiment& experiment, std::int64_t total_steps,
                         std::vector<tracking::Notice>& notices) {
  const auto warn = [&](const std::string& what, std::int64_t has, const std::string& units_and_effect) {
    notices.push_back(
        {tracking::Level::warning, what + ", and the run has " + core::format_count(has) + " " + units_and_effect});
  };
  const auto warn_if = [&](bool is_late, const std::string& key, std::int64_t value) {
    if (is_late) warn(key + " is " + core::format_count(value), total_steps, "steps: it changes nothing");
  };
  const auto warn_from_zero = [&](const std::string& key, std::int64_t start) {
    warn_if(start >= total_steps, key, start);
  };
  const auto warn_from_one = [&](const std::string& key, std::int64_t start) {
    warn_if(start > total_steps, key, start);
  };
  if (experiment.optimizer.ema) warn_from_one("optimizer.ema.start", experiment.optimizer.ema->start);
  if (const auto* qat = experiment.quantization.training.get_if<quantization::QatConfig>())
    for (const auto& [key, start] : {std::pair("start_step", std::optional(qat->start_step)),
                                     std::pair("freeze_observers_step", qat->freeze_observers_step),
                                     std::pair("freeze_batch_norm_step", qat->freeze_batch_norm_step)})
      if (start) warn_from_zero("quantization." + std::string(key), *start);
  if (const auto* ddp = experiment.distributed.how.get_if<distributed::DdpConfig>())
    if (const auto* power_sgd = ddp->gradient_compression.get_if<distributed::PowerSgdConfig>())
      warn_from_zero("distributed.gradient_compression.start_step", power_sgd->start_step);
  if (const auto& spikes = experiment.train.loss_spikes)  // compares a step with half a window of earlier ones, or more
    warn_if(2 * (total_steps - 1) < spikes->window, "train.loss_spikes.window", spikes->window);
  warn_from_one("tracking.histogram_every", experiment.tracking.histogram_every);
  if (const auto& snapshots = experiment.checkpoint.in_memory)
    warn_from_one("checkpoint.in_memory.every", snapshots->every);
  const profiler::ProfilerConfig& profile = experiment.profiler;
  const std::int64_t num_profiled = (profile.wait + profile.warmup + profile.active) * profile.repeat;
  if (profile.start_step && *profile.start_step - 1 + num_profiled > total_steps)
    warn("the profile from profiler.start_step on ends with step " +
             core::format_count(*profile.start_step - 1 + num_profiled),
         total_steps, "steps: no profile is written");
  if (const std::optional<EarlyStoppingConfig>& stopping =
          experiment.train.early_stopping)  // the first is the best yet
    if (const std::int64_t before_end = (total_steps - 1) / std::max<std::int64_t>(1, eval_interval(experiment.train));
        before_end <= stopping->patience)
      warn("train.early_stopping.patience is " + core::format_count(stopping->patience), before_end,
           "evaluations before its last step: it changes nothing");
}

optimizer::RunLength run_length(const experiment::Experiment& experiment, const dataset::Loader& train,
                                std::int64_t per_step) {
  const std::int64_t per_epoch = (train.batches_per_epoch() + per_step - 1) / per_step;
  if (per_epoch == 0)
    throw core::Error("an epoch has no batch: " + core::format_count(train.num_samples()) + " samples, batches of " +
                      core::format_count(experiment.dataset.samples_per_batch()) + ", drop_last")
        .hint("set dataset.drop_last: false, or a smaller dataset.batch_size");
  const std::int64_t total =
      experiment.train.steps
          ? *experiment.train.steps
          : core::checked_product({*experiment.train.epochs, per_epoch}).value_or(checkpoint::kMaxStep);
  if (total >= checkpoint::kMaxStep)
    throw core::Error("train.epochs are more steps than can be counted").hint("choose fewer");
  return {.total_steps = total, .steps_per_epoch = per_epoch};
}

/// Adds overrides that round, if the experiment trains for eight bits.
std::optional<quantization::QuantizedTraining> train_quantized(const experiment::Experiment& experiment,
                                                               model::Model& model, const model::InputSpec& input,
                                                               const comm::Group& group) {
  if (experiment.quantization.training.get_if<quantization::QatConfig>() == nullptr) return std::nullopt;
  if (group.size() > 1)
    throw core::Error("quantization.kind: qat trains on one rank, and there are " + std::to_string(group.size()) +
                      ": ranges of activations would differ between them")
        .hint("train on several ranks without it, and then for a few epochs on one, with model.init_from");
  return quantization::QuantizedTraining(model, experiment.quantization,
                                         quantization::layers_before_sums(experiment.model, input));
}

/// What is left to know of a model once only this rank's part is in it.
struct OwnPart {
  std::int64_t num_parameters = 0;                    // of the whole model
  std::optional<distributed::PipelineStages> stages;  // none: all blocks are this rank's
  std::unique_ptr<model::DeferredWeightGradients> deferred_gradients;
};

OwnPart keep_own_part(const distributed::DistributedConfig& config, comm::DeviceMesh& mesh, std::int64_t micro_batches,
                      model::Model& model) {
  OwnPart own{.num_parameters = model::num_parameters(model)};
  if (mesh.size(comm::Axis::pipeline) > 1) {
    own.stages = distributed::cut_model(config, mesh.place(comm::Axis::pipeline), micro_batches, model);
    if (own.stages->schedule.splits_backward())
      own.deferred_gradients = std::make_unique<model::DeferredWeightGradients>(model);
  }
  if (const model::TensorRanksPtr ranks = distributed::tensor_ranks(config, mesh)) model::split_layers(model, ranks);
  if (const model::ContextRanksPtr ranks = distributed::context_ranks(mesh)) model.share_sequences(ranks);
  return own;
}

struct WeightPlace {
  WeightsData data;
  c10::Device device;
  bool channels_last;
  const comm::Group& group;
  const DryRunSetup* dry_run;  // null: files are read
  std::vector<tracking::Notice>& notices;
};

/// Refuses a model that exceeds the memory, before any is allocated: the allocator would name a layer, and advise a
/// smaller batch.
void refuse_model_over_memory(model::Model& model, const c10::Device& device) {
  const auto bytes = static_cast<double>(model::num_parameters(model)) * sizeof(float);
  const auto most = static_cast<double>(machine::memory_for_tensors());
  if (!device.is_cpu() || bytes <= most) return;
  throw core::Error("the model has " + core::format_count(model::num_parameters(model)) + " parameters, which take " +
                    core::format_bytes(bytes) + "; tensors may take " + core::format_bytes(most) + " here")
      .hint(
          "make the sizes in model smaller, or share it among ranks with distributed.kind: zero and stage: 3; "
          "'trainctl plan' says what fits");
}

/// Puts layers on the devices that the config names for them. A CPU is one device, and so is that of a dry run.
void place_by_hand(model::Model& model, const model::ModelConfig& config, const WeightPlace& place) {
  if (config.placement.empty()) return;
  if (place.group.size() > 1)
    throw core::Error("model.placement puts layers on the devices of one process, and there are " +
                      std::to_string(place.group.size()))
        .hint("start one process, or deal blocks to ranks with distributed.pipeline");
  const c10::Device home = place.device;
  const bool is_one = home.is_cpu() || place.dry_run != nullptr;
  if (is_one) place.notices.push_back({tracking::Level::warning, "model.placement moves nothing: there is one device"});
  std::vector<model::LayerPlace> places;
  for (const model::LayerPlaceConfig& one : config.placement) {
    if (!is_one && one.device >= runtime::num_gpus())
      throw core::Error("model.placement names GPU " + std::to_string(one.device) + ", and this process may use " +
                        core::format_count(runtime::num_gpus()))
          .hint("GPUs are counted from 0; CUDA_VISIBLE_DEVICES hides some");
    const auto index = static_cast<c10::DeviceIndex>(one.device);
    places.push_back({.layers = one.layers, .device = is_one ? home : c10::Device(home.type(), index)});
  }
  model::place_layers(model, places, home);
}

/// Fills the model with first or published weights. If each rank holds only a part, returns the values instead, for the
/// code that shards the parameters.
model::FirstValues place_weights(model::Model& model, const experiment::Experiment& experiment,
                                 const WeightPlace& place) {
  const model::ModelConfig& config = experiment.model;
  place_by_hand(model, config, place);
  const auto seed = static_cast<std::uint64_t>(experiment.seed);
  const bool reads_files = place.dry_run == nullptr;
  if (config.init_from && !reads_files && place.dry_run->checks_initial_weights)
    check_initial_weights(model, config, place.data);
  if (!distributed::shards_parameters(experiment.distributed, place.group)) {
    if (reads_files) refuse_model_over_memory(model, place.device);
    model::materialize(model, place.device, seed, place.channels_last);
    if (config.init_from && reads_files) load_initial_weights(model, config, place.data, place.notices);
    return {};
  }
  model::materialize_without_parameters(model, place.device, place.channels_last);
  model::FirstValues values = model::first_values(model, seed);
  return config.init_from && reads_files ? initial_weights(model, config, place.data, values, place.notices) : values;
}

/// Returns the spec. Throws if ranks that share sequences can't each have as many tokens of the longest.
const dataset::SampleSpec& checked_spec(std::int64_t ranks, const dataset::SampleSpec& spec) {
  const std::int64_t chunks = 2 * ranks;
  const std::int64_t length = spec.input_shape.front();
  if (ranks == 1 || length % chunks == 0) return spec;
  throw core::Error("distributed.context is " + std::to_string(ranks) + ", and sequences of " + std::to_string(length) +
                    " tokens can't be cut into " + std::to_string(chunks) + " equal chunks")
      .hint("set the dataset's sequence length to " + std::to_string(length / chunks * chunks) + " or " +
            std::to_string((length / chunks + 1) * chunks));
}

/// Returns when BatchNorm's statistics are updated. A resumed run keeps the number of updates per step with which it
/// began.
model::RunningStatistics statistics_updates(const AccumulationConfig& accumulation, std::int64_t micro_batches) {
  const bool every_time =
      accumulation.batch_norm_update == BatchNormUpdate::per_micro_batch && micro_batches == accumulation.steps;
  return every_time ? model::RunningStatistics::every_forward : model::RunningStatistics::on_commit;
}

/// Refuses keys of BatchNorm where the network has none, and tells if its statistics are of other weights than those
/// that are evaluated.
void check_batch_norm(const experiment::Experiment& experiment, model::Model& model,
                      std::vector<tracking::Notice>& notices) {
  const std::vector<model::NamedTensor> buffers = model::named_buffers(model);
  const bool has_batch_norm =
      std::ranges::any_of(buffers, [](const auto& buffer) { return buffer.name.ends_with("running_mean"); });
  const bool averages_buffers = experiment.distributed.how.visit([](const auto& how) {
    if constexpr (requires { how.sync_buffers; }) return how.sync_buffers == distributed::SyncBuffers::average;
    return false;
  });
  const auto* qat = experiment.quantization.training.get_if<quantization::QatConfig>();
  for (const auto& [key, is_set] :
       {std::pair("distributed.sync_batch_norm",
                  config::facts_of(experiment.distributed.how).synchronizes_batch_norm.value),
        std::pair("distributed.sync_buffers", averages_buffers),
        std::pair("accumulation.batch_norm_update",
                  experiment.accumulation.batch_norm_update == BatchNormUpdate::per_step),
        std::pair("quantization.freeze_batch_norm_step", qat != nullptr && qat->freeze_batch_norm_step.has_value())})
    if (is_set && !has_batch_norm)
      throw core::Error(std::string(key) + ": the network has no BatchNorm").hint("leave this key out");
  if (config::traits_of(experiment.optimizer.rule).averages_weights && has_batch_norm)
    notices.push_back({tracking::Level::warning,
                       "BatchNorm's running statistics are of the trained weights, and " +
                           std::string(experiment.optimizer.rule.kind()) +
                           " evaluates averaged ones: metrics may be worse than with a network without BatchNorm"});
}

/// Tells if no linear layer of the network has a matrix for products in eight bits.
void check_eight_bits(const amp::AmpConfig& config, model::Model& model, std::vector<tracking::Notice>& notices) {
  if (config.mode != amp::Precision::fp8) return;
  bool is_any = false;
  model.visit_layers([&](const std::string&, model::Layer& layer) {
    if (dynamic_cast<model::MatrixLayer*>(&layer) == nullptr) return;
    layer.visit_own_parameters([&](const model::TensorDecl& decl) {
      is_any = is_any || (decl.value.dim() == 2 && kernels::is_float8_matrix(decl.value));
    });
  });
  if (!is_any)
    notices.push_back({tracking::Level::warning,
                       "amp.mode is fp8, and no linear layer of the network has sizes that are multiples of 16: it "
                       "computes in bf16 alone"});
}

/// Builds the whole model, and refuses entries of param_groups that have no effect on it.
std::unique_ptr<model::Model> build_model(const experiment::Experiment& experiment, const model::InputSpec& input,
                                          std::vector<tracking::Notice>& notices) {
  std::unique_ptr<model::Model> model = model::build(experiment.model, input);
  std::vector<optimizer::TrainedParameter> trained;
  model->visit_parameters([&](const std::string& name, const model::TensorDecl& decl) {
    if (decl.trainable) trained.push_back({name, decl.value.dim()});
  });
  optimizer::check_parameter_groups(experiment.optimizer, trained);
  check_batch_norm(experiment, *model, notices);
  check_eight_bits(experiment.amp, *model, notices);
  return model;
}

std::optional<optimizer::Ema> make_ema(const optimizer::OptimizerConfig& config,
                                       const std::vector<optimizer::OptimizedParameter>& parameters) {
  if (!config.ema) return std::nullopt;
  return std::optional<optimizer::Ema>(std::in_place, *config.ema, parameters);
}

std::optional<EarlyStopping> make_early_stopping(const TrainConfig& config) {
  if (!config.early_stopping) return std::nullopt;
  return EarlyStopping(*config.early_stopping);
}

std::optional<LossSpikes> make_loss_spikes(const TrainConfig& config) {
  if (!config.loss_spikes) return std::nullopt;
  return LossSpikes(*config.loss_spikes);
}

dataset::Datasets open_data(const experiment::Experiment& experiment, const RankContext& rank,
                            const dataset::LoaderOptions& loading) {
  if (rank.dry_run != nullptr) return rank.dry_run->open_data(loading);
  return rank.open_data ? rank.open_data(loading) : dataset::build(experiment.dataset, loading);
}

/// Returns the names of the metrics that decide about the run.
std::vector<std::string> watched_metrics(const experiment::Experiment& experiment) {
  std::vector<std::string> names;
  if (experiment.checkpoint.best) names.push_back(experiment.checkpoint.best->metric);
  if (experiment.train.early_stopping) names.push_back(experiment.train.early_stopping->metric);
  const optimizer::ScheduleFacts schedule = config::facts_of(experiment.optimizer.lr_scheduler.shape);
  if (const auto& watched = *schedule.watched) names.push_back(watched->name);
  return names;
}

/// Returns the task with its metrics. A dry run has assumed classes, which not every metric is for.
task::TaskConfig task_of(const experiment::Experiment& experiment, const dataset::SampleSpec& spec,
                         const RankContext& rank) {
  if (rank.dry_run != nullptr) return experiment.task;
  return task::with_metrics(experiment.task, spec, watched_metrics(experiment));
}

}  // namespace

std::unique_ptr<Run> build(const experiment::Experiment& experiment, std::vector<tracking::Notice>& notices,
                           const RankContext& rank) {
  std::unique_ptr<comm::Group> own_group = rank.group == nullptr ? group_of_one(experiment.distributed) : nullptr;
  comm::Group& world = own_group ? *own_group : *rank.group;
  auto mesh = std::make_unique<comm::DeviceMesh>(world, distributed::mesh_shape(experiment.distributed, world));
  comm::Group& batch_ranks = mesh->batch();
  const c10::Device device = rank.dry_run ? rank.dry_run->device : prepare_machine(experiment, rank, notices);
  dataset::LoaderOptions loading = loader_options(experiment, device, batch_ranks, rank.local_world_size, notices);
  const StepSize step = step_size(experiment, batch_ranks, rank);
  loading.global_batch = step.is_even ? 0 : step.global_batch;
  dataset::Datasets data = open_data(experiment, rank, loading);
  const dataset::SampleSpec& spec = checked_spec(mesh->size(comm::Axis::context), data.train->spec());
  const model::InputSpec input = input_spec(spec);
  std::unique_ptr<model::Model> model = build_model(experiment, input, notices);
  std::optional<quantization::QuantizedTraining> quantized_training = train_quantized(experiment, *model, input, world);
  OwnPart own = keep_own_part(experiment.distributed, *mesh, step.micro_batches, *model);
  const bool channels_last = wants_channels_last(experiment.model, *model, spec);
  const model::FirstValues first_values = place_weights(
      *model, experiment, {{input, spec.class_names}, device, channels_last, mesh->gradients(), rank.dry_run, notices});
  model::set_running_statistics(*model, statistics_updates(experiment.accumulation, step.micro_batches));
  activation_checkpointing::checkpoint_activations(*model, experiment.activation_checkpointing, device);
  const auto companions =
      load_companions(experiment, *model, data,
                      {device, channels_last, static_cast<std::uint64_t>(experiment.seed), rank.dry_run, notices});
  const double peak_lr = scaled_lr(experiment, step.global_batch);
  const optimizer::RunLength length = run_length(experiment, *data.train, step.micro_batches);
  warn_of_schedule(experiment.optimizer.lr_scheduler, peak_lr, length, notices);
  warn_of_lone_samples(experiment, notices);
  warn_of_late_starts(experiment, length.total_steps, notices);
  std::unique_ptr<distributed::Parallel> parallel =
      distributed::build(experiment.distributed, *mesh, *model, first_values, own.stages ? &*own.stages : nullptr);
  distributed::Parallel& laid_out = *parallel;
  auto run = std::make_unique<Run>(Run{
      .experiment = experiment,
      .device = device,
      .own_group = std::move(own_group),
      .mesh = std::move(mesh),
      .data = std::move(data),
      .model = std::move(model),
      .stages = std::move(own.stages),
      .deferred_gradients = std::move(own.deferred_gradients),
      .task = task::build(task_of(experiment, spec, rank), spec, companions),
      .companion_checksums = companions.checksums,
      .parameters = laid_out.optimized(),
      .parallel = std::move(parallel),
      .optimizer = laid_out.make_optimizer(experiment.optimizer),
      .scaler = amp::LossScaler(experiment.amp, laid_out.update_device()),
      .ema = make_ema(experiment.optimizer, laid_out.optimized()),
      .quantized_training = std::move(quantized_training),
      .plateau = optimizer::plateau_of(experiment.optimizer.lr_scheduler, peak_lr),
      .best = BestEvaluation(experiment.checkpoint.best),
      .early_stopping = make_early_stopping(experiment.train),
      .loss_spikes = make_loss_spikes(experiment.train),
      .global_batch = step.global_batch,
      .micro_batches = step.micro_batches,
      .num_parameters = own.num_parameters,
      .peak_lr = peak_lr,
      .length = length,
      .channels_last = channels_last,
      .num_skipped = at::zeros({}, at::TensorOptions(device).dtype(at::kDouble)),
      .window = at::zeros({2}, at::TensorOptions(device).dtype(at::kDouble)),
      .next_sample = {},
  });
  core::check_mapped_files();  // the weights'
  return run;
}

double Run::lr_of_step(std::int64_t number) const {
  const optimizer::ScheduleConfig& schedule = experiment.optimizer.lr_scheduler;
  const bool goes_by_data = experiment.train.epochs || schedule.interval == optimizer::LrInterval::epoch;
  const std::int64_t offset = goes_by_data ? schedule_offset : 0;
  const optimizer::RunLength scheduled{.total_steps = length.total_steps + offset,
                                       .steps_per_epoch = length.steps_per_epoch};
  return optimizer::lr_at(schedule, peak_lr, number - 1 + offset, scheduled) * (plateau ? plateau->factor() : 1.0);
}

std::int64_t Run::steps_left_in_epoch(std::int64_t sample) const {
  const std::int64_t left = std::max<std::int64_t>(0, data.train->num_samples() - sample);
  const std::int64_t batch = (global_batch + micro_batches - 1) / micro_batches;
  const std::int64_t used = experiment.dataset.drop_last ? left / batch * batch : left;
  return (used + global_batch - 1) / global_batch;
}

void Run::place_in_schedule(std::int64_t offset, std::int64_t batch_before) {
  const std::int64_t planned = length.total_steps + (experiment.train.epochs ? schedule_offset : 0);
  const std::int64_t per_epoch = length.steps_per_epoch;
  const bool has_same_epochs = (batch_before == 0 || batch_before == global_batch) &&
                               (steps_per_epoch_before < 0 || steps_per_epoch_before == per_epoch);
  schedule_offset = has_same_epochs ? offset
                                    : (next_sample.epoch + 1) * per_epoch -
                                          std::min(per_epoch, steps_left_in_epoch(next_sample.sample)) - step;
  if (experiment.train.epochs) length.total_steps = planned - schedule_offset;
}

amp::Autocast Run::autocast() const {
  const bool has_parts = distributed::shards_parameters(experiment.distributed, mesh->gradients());
  return {experiment.amp, device, has_parts ? amp::WeightCasts::made_anew : amp::WeightCasts::kept};
}

std::int64_t Run::num_sampled_for_evaluation() const {
  const std::int64_t batches = experiment.train.eval_steps.value_or(0);
  if (!data.eval || batches >= data.eval->batches_per_epoch()) return 0;
  return batches * experiment.dataset.eval_batch_size.value_or(experiment.dataset.samples_per_batch()) *
         mesh->batch().size();
}

void Run::forget_evaluations() {
  metrics.clear();
  evaluated_step = -1;
  best = BestEvaluation(experiment.checkpoint.best);
  if (plateau) plateau->forget_best();
  if (early_stopping) early_stopping->forget_best();
}

void Run::visit_state(runtime::State& state) {
  parallel->visit_state(state, *optimizer);
  if (state.has("scaler") || !scaler.is_active())
    runtime::visit_as(state, "scaler", scaler);
  else
    state.begins_anew("scaler");
  if (ema && state.has("ema")) {
    runtime::PrefixedState averages(state, "ema");
    parallel->visit_averages(averages, *ema);
  } else if (ema) {
    state.begins_anew("ema");
  }
  runtime::visit_optional(state, "plateau", plateau);
  runtime::visit_as(state, "best", best);
  runtime::PrefixedState evaluation(state, "evaluation");
  if (evaluation.has("step")) visit_evaluation(evaluation, metrics, evaluated_step);  // older checkpoints lack it
  runtime::visit_optional(state, "early_stopping", early_stopping);
  const std::string evaluated = data.eval_fingerprint + " " + std::to_string(num_sampled_for_evaluation());
  if (runtime::watched_another(evaluation, evaluated)) {
    if (!best.metrics().empty()) state.begins_anew("the best evaluation, since the evaluation set is another");
    forget_evaluations();
  }
  runtime::visit_optional(state, "loss_spikes", loss_spikes);
  state.integer("step", step);
  steps_per_epoch_before = length.steps_per_epoch;
  if (state.has("schedule_offset")) state.integer("schedule_offset", schedule_offset);  // older checkpoints lack it
  if (state.has("steps_per_epoch"))
    state.integer("steps_per_epoch", steps_per_epoch_before);
  else
    steps_per_epoch_before = -1;
  last_lr = step > 0 ? lr_of_step(step) : 0;
  if (state.has("lr")) state.number("lr", last_lr);
  state.integer("num_rollbacks", num_rollbacks);
  state.integer("data.epoch", next_sample.epoch);
  state.integer("data.sample", next_sample.sample);
  state.tensor("num_skipped", num_skipped);
  state.tensor("window", window);
}

}  // namespace trainctl::train
