#include "card.h"

namespace trainctl::engine {
namespace {

/// Adds the transforms of evaluation, with one mean and one standard deviation per channel.
void add_transforms(pretrained::ModelInfo& facts, const dataset::DatasetConfig& dataset) {
  if (facts.input_shape.size() != 3) return;
  const auto channels = static_cast<std::size_t>(facts.input_shape[0]);
  const auto for_each = [&](const std::vector<double>& values) {
    return values.size() == 1 ? std::vector<double>(channels, values[0]) : values;
  };
  facts.transforms = dataset::without_randomness(dataset.eval_transforms.value_or(dataset.transforms));
  for (const dataset::TransformConfig& transform : facts.transforms)
    if (const auto* normalize = transform.get_if<dataset::NormalizeConfig>()) {
      facts.pixel_mean = for_each(normalize->mean);
      facts.pixel_std = for_each(normalize->std);
    }
}

pretrained::ModelInfo facts_of_run(const train::Run& run) {
  const dataset::SampleSpec& spec = run.data.train->spec();
  pretrained::ModelInfo facts = pretrained::model_info_of(*run.model, spec.input_shape);
  facts.targets = spec.targets;
  facts.labels = spec.labels;
  facts.class_names = spec.class_names;
  add_transforms(facts, run.experiment.dataset);
  return facts;
}

std::string quantization_of(const quantization::Quantization* quantization) {
  if (quantization == nullptr) return "";
  const quantization::QuantizationRecipe& recipe = quantization->recipe();
  const bool has_levels = recipe.method == quantization::QuantizationMethod::static_ ||
                          recipe.method == quantization::QuantizationMethod::qat;
  return std::string(config::name_of(recipe.method)) + ", " + std::to_string(recipe.weight_bits) + " bits" +
         (has_levels ? ", " + std::string(config::name_of(recipe.activations)) + " activations" : "");
}

}  // namespace

exporters::ModelCard card_of(const CheckpointedRun& loaded, const cli::EngineCall& call,
                             exporters::ArtefactFormat format, task::Metrics metrics,
                             const quantization::Quantization* quantization) {
  const train::Run& run = *loaded.run;
  const auto* labels = run.experiment.task.get_if<task::MultiLabelClassificationConfig>();
  return {.name = run.experiment.name,
          .metadata = run.experiment.model_card,
          .format = format,
          .task_kind = std::string(run.experiment.task.kind()),
          .label_threshold = labels == nullptr ? std::nullopt : std::optional(labels->threshold),
          .network_kind = std::string(run.experiment.model.network.kind()),
          .dataset_kind = std::string(run.experiment.dataset.source.kind()),
          .config = call.loaded.resolved_yaml,
          .data_fingerprint = run.data.fingerprint,
          .metrics = std::move(metrics),
          .step = run.step,
          .num_parameters = loaded.num_parameters,
          .quantization = quantization_of(quantization),
          .facts = facts_of_run(run)};
}

}  // namespace trainctl::engine
