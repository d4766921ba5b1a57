#include "experiment/rules.h"

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

}  // namespace

void check_idle_keys(Checked& c) {
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
  if (!e.model.init_from && e.model.init_policy != model::ModelConfig{}.init_policy)
    report("model.init_policy", "model.init_from", "model.init_from is null");
  if (e.model.convolution_algorithm == model::ConvolutionAlgorithm::direct &&
      !config::traits_of(e.model.network).has_convolutions)
    report("model.convolution_algorithm", "model.kind",
           "model.kind is " + std::string(e.model.network.kind()) + ", which has no convolutions");
  if (const auto* listed = e.model.network.get_if<model::LayersConfig>();
      listed != nullptr && listed->init != model::LayersInit::normal &&
      listed->init_std != model::LayersConfig{}.init_std)
    report("model.init_std", "model.init", "model.init is " + std::string(config::name_of(listed->init)));
  if (!rolls_back(e.train) && e.train.max_rollbacks != train::TrainConfig{}.max_rollbacks)
    report("train.max_rollbacks", "train.on_non_finite",
           "neither train.on_non_finite nor train.loss_spikes rolls back");
  if (e.dataset.on_bad_sample == dataset::OnBadSample::fail &&
      e.dataset.max_bad_samples != dataset::DatasetConfig{}.max_bad_samples)
    report("dataset.max_bad_samples", "dataset.on_bad_sample", "dataset.on_bad_sample is fail");
  if (const auto* table = e.dataset.source.get_if<dataset::TableConfig>();
      table != nullptr && table->label_type == dataset::LabelType::value && !table->class_names.empty())
    report("dataset.class_names", "dataset.label_type", "dataset.label_type is value");
  e.dataset.source.visit([&](const auto& source) {
    if constexpr (requires { source.split_seed, source.eval_fraction, source.test_fraction; })
      if (source.split_seed != 0 && source.eval_fraction == 0 && source.test_fraction == 0 && !e.dataset.fold)
        report("dataset.split_seed", "dataset", "no share of the samples is kept for evaluation or test");
  });
  if (e.quantization.observer != quantization::RangeFrom::percentile &&
      e.quantization.percentile != quantization::QuantizationConfig{}.percentile)
    report("quantization.percentile", "quantization.observer",
           "quantization.observer is " + std::string(config::name_of(e.quantization.observer)));
}

}  // namespace trainctl::experiment
