#include "experiment/rules.h"
#include "layer_graph/inspect.h"

namespace trainctl::experiment {
namespace {

bool decays_weights(const optimizer::OptimizerConfig& optimizer) {
  bool decays = optimizer.weight_decay > 0;
  for (const optimizer::ParameterGroupConfig& group : optimizer.param_groups)
    decays = decays || group.weight_decay.value_or(0) > 0;
  return decays;
}

bool rolls_back(const train::TrainConfig& train) {
  return train.on_non_finite == train::NonFinite::rollback ||
         (train.loss_spikes && train.loss_spikes->action == train::SpikeAction::rollback);
}

/// Reports keys of rotary positions where no layer reads these.
void check_idle_rotary_keys(Checked& c, const model::LlamaConfig& llama) {
  bool rotates = false;
  bool reads_theta = false;  // and rope_scaling
  bool reads_local_theta = false;
  for (std::size_t i = 0; i < static_cast<std::size_t>(llama.num_layers); ++i) {
    const bool is_local = llama.slides(i) && llama.rope_local_theta;
    rotates = rotates || llama.rotates(i);
    reads_theta = reads_theta || (llama.rotates(i) && !is_local);
    reads_local_theta = reads_local_theta || (llama.rotates(i) && is_local);
  }
  const model::LlamaConfig plain;
  for (const auto& [key, is_idle] :
       {std::pair("model.rope_theta", llama.rope_theta != plain.rope_theta && !reads_theta),
        std::pair("model.rope_local_theta", llama.rope_local_theta && !reads_local_theta),
        std::pair("model.rope_scaling",
                  llama.rope_scaling.get_if<model::PlainRopeConfig>() == nullptr && !reads_theta)}) {
    if (!is_idle) continue;
    if (rotates && !reads_theta)
      c.report({key, "model.rope_local_theta", "model.layer_types"},
               "changes nothing while each layer with rotary positions slides and so has model.rope_local_theta");
    else
      c.report({key, "model.position_types"}, std::string("changes nothing while model.position_types gives no ") +
                                                  (rotates ? "layer that slides" : "layer") + " rotary ones");
  }
}

/// A published directory may set these for another task. So they are looked at where a network begins anew.
void check_idle_network_keys(Checked& c) {
  const Experiment& e = c.experiment;
  if (e.model.init_from) return;
  const std::string task(e.task.kind());
  const model::Output output = config::traits_of(e.task).output;
  if (const auto* bert = e.model.network.get_if<model::BertConfig>(); bert != nullptr) {
    const bool pools = output == model::Output::per_sample;
    for (const auto& [key, is_idle] : {std::pair("model.pooling", !pools && bert->pooling != model::BertPooling::first),
                                       std::pair("model.normalize_pooled", !pools && bert->normalize_pooled),
                                       std::pair("model.dropout_before_pooler", !pools && bert->dropout_before_pooler),
                                       std::pair("model.classifier_dropout", output == model::Output::masked_tokens &&
                                                                                 bert->classifier_dropout.value)})
      if (is_idle) c.report({key, "task.kind"}, "changes nothing while task.kind is " + task);
  }
  if (const auto* lstm = e.model.network.get_if<model::LstmConfig>();
      lstm != nullptr && lstm->tie_embeddings && output != model::Output::next_tokens)
    c.report({"model.tie_embeddings", "task.kind"}, "changes nothing while task.kind is " + task);
  const auto* llama = e.model.network.get_if<model::LlamaConfig>();
  if (llama == nullptr) return;
  check_idle_rotary_keys(c, *llama);
  const auto* linear = llama->rope_scaling.get_if<model::LinearRopeConfig>();
  const auto* yarn = llama->rope_scaling.get_if<model::YarnRopeConfig>();
  const auto* llama3 = llama->rope_scaling.get_if<model::Llama3RopeConfig>();
  if ((linear != nullptr && linear->factor == 1) || (llama3 != nullptr && llama3->factor == 1) ||
      (yarn != nullptr && yarn->factor == 1 && yarn->attention_factor.value_or(1) == 1))
    c.report({"model.rope_scaling", "model.rope_scaling.factor"},
             "changes nothing while model.rope_scaling.factor is 1; set it to how many times longer sequences become");
  const auto report_beside_attention_factor = [&](const char* key) {
    c.report({key, "model.rope_scaling.attention_factor", "model.rope_scaling"},
             "changes nothing while model.rope_scaling.attention_factor is given; give one of them");
  };
  if (yarn != nullptr && yarn->attention_factor && yarn->mscale && yarn->mscale_all_dim)
    report_beside_attention_factor("model.rope_scaling.mscale");
  if (const auto* longrope = llama->rope_scaling.get_if<model::LongRopeConfig>();
      longrope != nullptr && longrope->attention_factor && longrope->factor)
    report_beside_attention_factor("model.rope_scaling.factor");
  if (yarn != nullptr && yarn->mscale.has_value() != yarn->mscale_all_dim.has_value())
    c.report({yarn->mscale ? "model.rope_scaling.mscale" : "model.rope_scaling.mscale_all_dim", "model.rope_scaling"},
             "changes nothing while the other of mscale and mscale_all_dim is null");
}

/// Reports the seed of a split, where a source keeps no samples for evaluation or test.
void check_split_seeds(Checked& c) {
  const auto check_at = [&](const std::string& path) {
    return [&c, path](const auto& source) {
      if constexpr (requires { source.split_seed, source.eval_fraction; }) {
        double kept_share = source.eval_fraction;
        if constexpr (requires { source.test_fraction; }) kept_share += source.test_fraction;
        if (source.split_seed != 0 && kept_share == 0 && !c.experiment.dataset.fold)
          c.report({path + ".split_seed", path},
                   "changes nothing while no share of the samples is kept for evaluation or test");
      }
    };
  };
  const dataset::SourceConfig& source = c.experiment.dataset.source;
  if (const auto* mixture = source.get_if<dataset::MixtureConfig>())
    for (std::size_t i = 0; i < mixture->sources.size(); ++i)
      mixture->sources[i].source.visit(check_at(config::join_path("dataset.sources", i)));
  else
    source.visit(check_at("dataset"));
}

/// Whether a network has no block before its last one, whose values are needed first in the backward pass.
bool is_single_block(const model::NetworkConfig& network) {
  if (const auto* mlp = network.get_if<model::MlpConfig>()) return mlp->hidden.empty();
  const auto* listed = network.get_if<model::LayersConfig>();
  return listed != nullptr && layer_graph::units_of(listed->layers).size() == 1 &&
         listed->layers.front().layer.get_if<layer_graph::RepeatLayer>() == nullptr;
}

/// Reports what is done with each block but the last, where there is none.
void check_single_block(Checked& c) {
  const Experiment& e = c.experiment;
  if (!is_single_block(e.model.network)) return;
  const activation_checkpointing::ActivationCheckpointingConfig& memory = e.activation_checkpointing;
  for (const auto& [key, is_set] :
       {std::pair("activation_checkpointing.kind", *config::traits_of(memory.blocks).recomputes),
        std::pair("activation_checkpointing.offload",
                  memory.offload != activation_checkpointing::ActivationOffload::none),
        std::pair("activation_checkpointing.storage_dtype",
                  memory.storage_dtype != activation_checkpointing::ActivationStorage::none),
        std::pair("optimizer.layer_decay", e.optimizer.layer_decay.has_value())})
    if (is_set)
      c.report({key, "activation_checkpointing", "optimizer.layer_decay", "model.layers", "model.kind"},
               "changes nothing in a network of one block; leave it out");
}

}  // namespace

void check_idle_keys(Checked& c) {
  check_idle_network_keys(c);
  const Experiment& e = c.experiment;
  const auto report = [&](std::string_view key, std::string_view other, const std::string& why) {
    c.report({key, other}, "changes nothing while " + why);
  };
  if (e.optimizer.lr_scaling == optimizer::LrScaling::none &&
      e.optimizer.base_batch_size != optimizer::OptimizerConfig{}.base_batch_size)
    report("optimizer.base_batch_size", "optimizer.lr_scaling", "optimizer.lr_scaling is none");
  if (e.optimizer.decay_bias_and_norm && !decays_weights(e.optimizer))
    report("optimizer.decay_bias_and_norm", "optimizer.weight_decay", "optimizer.weight_decay is 0");
  if (e.optimizer.lr_scheduler.warmup == 0 && e.optimizer.lr_scheduler.warmup_start_factor != 0)
    report("optimizer.lr_scheduler.warmup_start_factor", "optimizer.lr_scheduler.warmup",
           "optimizer.lr_scheduler.warmup is 0");
  const optimizer::ScheduleConfig& schedule = e.optimizer.lr_scheduler;
  if (const bool counts_units =
          config::traits_of(schedule.shape).decays && !config::facts_of(schedule.shape).watched.value.has_value();
      schedule.warmup == 0 && schedule.interval != optimizer::LrInterval::step && !counts_units)
    report("optimizer.lr_scheduler.interval", "optimizer.lr_scheduler.warmup",
           "optimizer.lr_scheduler.warmup is 0: " + std::string(schedule.shape.kind()) +
               " counts neither steps nor epochs");
  if (const auto* schedule_free = e.optimizer.rule.get_if<optimizer::ScheduleFreeConfig>();
      schedule_free != nullptr && schedule.warmup == 0 &&
      schedule_free->weight_lr_power != optimizer::ScheduleFreeConfig{}.weight_lr_power)
    report("optimizer.weight_lr_power", "optimizer.lr_scheduler.warmup", "optimizer.lr_scheduler.warmup is 0");
  if (e.optimizer.layer_decay == 1.0)
    c.report({"optimizer.layer_decay"}, "1 changes nothing; choose a smaller factor, or leave this key out");
  if (e.optimizer.ema && e.optimizer.ema->decay == 0 && e.optimizer.ema->every == 1)
    c.report({"optimizer.ema.decay", "optimizer.ema.every"},
             "0 makes the average the weights; choose a decay near 1, or leave optimizer.ema out");
  if (e.distributed.pipeline == 1 && e.distributed.pipeline_schedule.get_if<distributed::OneFOneBConfig>() == nullptr)
    report("distributed.pipeline_schedule", "distributed.pipeline", "distributed.pipeline is 1");
  if (e.distributed.pipeline == 1 && e.distributed.pipeline_split.get_if<distributed::SplitByCostConfig>() == nullptr)
    report("distributed.pipeline_split", "distributed.pipeline", "distributed.pipeline is 1");
  if (!e.model.init_from && e.model.init_policy != model::ModelConfig{}.init_policy)
    report("model.init_policy", "model.init_from", "model.init_from is null");
  if (e.model.convolution_algorithm == model::ConvolutionAlgorithm::direct &&
      !config::traits_of(e.model.network).has_convolutions)
    report("model.convolution_algorithm", "model.kind",
           "model.kind is " + std::string(e.model.network.kind()) + ", which has no convolutions");
  if (e.model.memory_format == model::MemoryFormat::channels_last && input_of(e.model.network) == model::Input::tokens)
    report("model.memory_format", "model.kind",
           "model.kind is " + std::string(e.model.network.kind()) + ", which takes sequences of tokens");
  if (e.model.memory_format == model::MemoryFormat::channels_last && has_rows(e.dataset.source))
    report("model.memory_format", "dataset.kind",
           "dataset.kind is " + std::string(e.dataset.source.kind()) + ", which has no images");
  if (e.device.expandable_segments && e.device.kind == runtime::DeviceKind::cpu)
    report("device.expandable_segments", "device.kind", "device.kind is cpu");
  check_single_block(c);
  if (const auto* listed = e.model.network.get_if<model::LayersConfig>();
      listed != nullptr && listed->init != model::LayersInit::normal &&
      listed->init_std != model::LayersConfig{}.init_std)
    report("model.init_std", "model.init", "model.init is " + std::string(config::name_of(listed->init)));
  if (e.train.watchdog.step_multiple == 0 && e.train.watchdog.min_timeout_s != train::WatchdogConfig{}.min_timeout_s)
    report("train.watchdog.min_timeout_s", "train.watchdog.step_multiple", "train.watchdog.step_multiple is 0");
  const std::int64_t shown = e.tracking.sample_predictions;
  if (shown > 0 && shown != tracking::TrackingConfig{}.sample_predictions &&
      !(e.dataset.has_evaluation_set() && evaluates_at_end(e.train)))
    report("tracking.sample_predictions", "train.eval_every", "the run evaluates nothing");
  if (const auto* scaling = e.amp.loss_scaling.get_if<amp::DynamicScalingConfig>();
      e.amp.mode == amp::Precision::fp16 && scaling != nullptr && scaling->growth_factor == 1 &&
      scaling->growth_interval != amp::DynamicScalingConfig{}.growth_interval)
    report("amp.loss_scaling.growth_interval", "amp.loss_scaling.growth_factor", "amp.loss_scaling.growth_factor is 1");
  if (e.train.eval_steps && !evaluates_at_end(e.train))
    report("train.eval_steps", "train.eval_every", "train.eval_every is 0");
  if (!rolls_back(e.train) && e.train.max_rollbacks != train::TrainConfig{}.max_rollbacks)
    report("train.max_rollbacks", "train.on_non_finite",
           "neither train.on_non_finite nor train.loss_spikes rolls back");
  if (e.dataset.num_workers.value == 0)
    for (const auto& [key, is_set] :
         {std::pair("dataset.prefetch_factor", e.dataset.prefetch_factor != dataset::DatasetConfig{}.prefetch_factor),
          std::pair("dataset.persistent_workers", !e.dataset.persistent_workers)})
      if (is_set) report(key, "dataset.num_workers", "dataset.num_workers is 0");
  if (e.dataset.on_bad_sample == dataset::OnBadSample::fail &&
      e.dataset.max_bad_samples != dataset::DatasetConfig{}.max_bad_samples)
    report("dataset.max_bad_samples", "dataset.on_bad_sample", "dataset.on_bad_sample is fail");
  if (!e.dataset.shuffle && e.dataset.balanced_sampling)
    report("dataset.shuffle", "dataset.balanced_sampling", "dataset.balanced_sampling draws the samples at random");
  if (const auto* folder = e.dataset.source.get_if<dataset::ImageFolderConfig>();
      folder != nullptr && folder->labels && folder->cache_dir != dataset::ImageFolderConfig{}.cache_dir)
    report("dataset.cache_dir", "dataset.labels", "dataset.labels lists the images");
  if (const auto* table = e.dataset.source.get_if<dataset::TableConfig>();
      table != nullptr && table->label_type == dataset::LabelType::value && !table->class_names.empty())
    report("dataset.class_names", "dataset.label_type", "dataset.label_type is value");
  if (const auto* shards = e.dataset.source.get_if<dataset::WebDatasetConfig>(); shards != nullptr) {
    if (!shards->label.ends_with("json") && shards->label_member != dataset::WebDatasetConfig{}.label_member)
      report("dataset.label_member", "dataset.label", "dataset.label is " + shards->label + ", which isn't JSON");
    const bool draws_windows = e.dataset.shuffle && !e.dataset.balanced_sampling;
    for (const auto& [key, is_set] :
         {std::pair("dataset.shuffle_buffer", shards->shuffle_buffer.value.value_or(0) > 0),
          std::pair("dataset.shuffle_shards", shards->shuffle_shards != dataset::WebDatasetConfig{}.shuffle_shards)})
      if (is_set && !draws_windows)
        report(key, e.dataset.shuffle ? "dataset.balanced_sampling" : "dataset.shuffle",
               e.dataset.shuffle ? "dataset.balanced_sampling draws the samples" : "dataset.shuffle is false");
    if (draws_windows && shards->shuffle_buffer.value == 0 &&
        shards->shuffle_shards != dataset::WebDatasetConfig{}.shuffle_shards)
      report("dataset.shuffle_shards", "dataset.shuffle_buffer", "dataset.shuffle_buffer is 0");
  }
  check_split_seeds(c);
  if (e.quantization.observer != quantization::RangeFrom::percentile &&
      e.quantization.percentile != quantization::QuantizationConfig{}.percentile)
    report("quantization.percentile", "quantization.observer",
           "quantization.observer is " + std::string(config::name_of(e.quantization.observer)));
}

}  // namespace trainctl::experiment
