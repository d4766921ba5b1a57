#include "core/text.h"
#include "experiment/rules.h"

namespace trainctl::experiment {
namespace {

void check_input(Checked& c) {
  const model::NetworkConfig& network = c.experiment.model.network;
  const dataset::SourceConfig& source = c.experiment.dataset.source;
  const model::Input input = input_of(network);
  const std::string model(network.kind());
  const std::string data(source.kind());
  if (has_rows(source)) {
    const auto takers = model::kinds_where([](const model::ModelTraits& traits) {
      return traits.input == model::Input::numbers || traits.input == model::Input::any;
    });
    if (input != model::Input::numbers)
      c.report({"model.kind", "dataset.kind"}, data + " has rows of numbers, which model " +
                                                   core::list_words(takers, "or") + " takes, and " + model +
                                                   " doesn't");
    return;
  }
  const bool takes_sequences = input == model::Input::tokens;
  if (has_tokens(source) == takes_sequences) return;
  c.report({"model.kind", "dataset.kind"}, model + " takes " + (takes_sequences ? "sequences of tokens" : "images") +
                                               ", but " + data + " has " +
                                               (takes_sequences ? "images" : "sequences of tokens"));
}

void check_classes(Checked& c) {
  const std::int64_t in_data = known_classes(c.experiment.dataset.source);
  const std::int64_t in_model = sizes_of(c.experiment.model.network).num_classes.value.value_or(0);
  if (in_data > 0 && in_model > 0 && in_data != in_model)
    c.report({"model.num_classes", "model.kind", "dataset.kind", "dataset.num_classes", "dataset.coarse_labels"},
             "the dataset has " + std::to_string(in_data) + " classes, not " + std::to_string(in_model) +
                 "; leave this out to follow it");
}

/// Sides of the images that the network gets, where the config tells them.
std::optional<model::ImageSides> image_sides(const dataset::DatasetConfig& dataset) {
  const dataset::DatasetFacts facts = config::facts_of(dataset.source);
  if (facts.images() == nullptr) return std::nullopt;
  const auto size = dataset::size_after(dataset.transforms, *facts.images()->size);
  return size ? std::optional(model::ImageSides{.height = size->height, .width = size->width}) : std::nullopt;
}

void check_own_rules(Checked& c) {
  const model::Surroundings around = surroundings_of_network(c.experiment);
  c.report(c.experiment.model.network.visit([&](const auto& network) { return network.broken_rules(around); }));
}

/// What the data is for, check_text() says. So networks for images aren't asked, except for classes of pixels.
void check_output(Checked& c) {
  const model::NetworkConfig& network = c.experiment.model.network;
  const model::ModelTraits& traits = config::traits_of(network);
  const std::string task(c.experiment.task.kind());
  const model::Output output = config::traits_of(c.experiment.task).output;
  const bool is_asked = input_of(network) == model::Input::tokens || output == model::Output::per_pixel;
  if (!is_asked || traits.outputs.value.contains(output)) return;
  const std::string model(network.kind());
  const auto only_gives = [&](model::Output one) {
    return traits.outputs.value.size() == 1 && traits.outputs.value.contains(one);
  };
  const bool predicts_target = only_gives(model::Output::target_tokens);
  if (predicts_target || only_gives(model::Output::next_tokens))
    for (const task::TaskKind& known : task::kTaskKinds)
      if (traits.outputs.value.contains(known.traits->output))
        return c.report({"task.kind", "model.kind"},
                        model + (predicts_target ? " predicts a target's tokens" : " predicts next tokens") +
                            ": expected " + std::string(known.kind) + ", got " + task);
  c.report({"task.kind", "model.kind"}, model + " has no head for " + task);
}

void check_freeze(Checked& c) {
  const model::ModelConfig& model = c.experiment.model;
  if (!model.freeze.empty() && model.lora)
    c.report({"model.freeze", "model.lora"},
             "model.lora freezes all but its adapters and modules_to_save; leave freeze out");
  for (std::size_t i = 0; i < model.freeze.size() && model.freeze[i].starts_with('!'); ++i)
    c.report({config::join_path("model.freeze", i)},
             "changes nothing: no pattern before it freezes anything; put the pattern that does, such as '*', first");
}

void check_lora(Checked& c) {
  const model::ModelConfig& model = c.experiment.model;
  if (!model.lora) return;
  if (model.lora->init_from && !model.init_from)
    c.report({"model.lora.init_from", "model.init_from"},
             "adapters fit the weights that they were trained beside; set model.init_from to these");
  if (model.lora->target_modules.empty())
    c.report({"model.lora.target_modules", "model.lora", "model.lora.init_from"},
             "required: names of the linear layers that get an adapter, such as query; init_from may take its place");
}

/// Reports what muP can't be combined with.
void check_mup(Checked& c) {
  const model::ModelConfig& model = c.experiment.model;
  if (!model.mup) return;
  const std::optional<std::int64_t> width = width_of(model.network);
  if (!width)
    return c.report({"model.mup", "model.kind"}, std::string(model.network.kind()) +
                                                     " has no key for its width, by which muP scales; expected a "
                                                     "network with hidden_size, hidden or widen_factor");
  const std::int64_t base = model.mup->base_width;
  if (const std::string size = size_without(model.network, base); !size.empty())
    c.report({"model.mup.base_width", "model.kind"}, "model." + size + " is no whole number at width " +
                                                         std::to_string(base) +
                                                         ": sizes are in proportion to the width, which is " +
                                                         std::to_string(*width) + ", and heads keep theirs");
  if (model.lora)
    c.report({"model.mup", "model.lora"}, "muP trains every weight, and model.lora only adapters; leave one out");
  if (!config::traits_of(c.experiment.optimizer.rule).normalizes_elements)
    c.report({"model.mup", "optimizer.kind"},
             "muP's learning rates are for updates that don't depend on the gradient's size, as those of adamw, adam, "
             "adamw_schedule_free, lion and rmsprop, and not of " +
                 std::string(c.experiment.optimizer.rule.kind()));
}

/// Reports keys that work on layers of this program, which a scripted network doesn't have.
void check_scripted(Checked& c) {
  if (c.experiment.model.network.get_if<model::TorchScriptConfig>() == nullptr) return;
  const auto refuse = [&](std::string_view key, const std::string& what) {
    c.report({key, "model.kind"},
             what +
                 " works on layers that trainctl builds, and a scripted network has its own; leave it out, or "
                 "write the network as model.kind: layers");
  };
  if (config::facts_of(c.experiment.distributed.how).synchronizes_batch_norm)
    refuse("distributed.sync_batch_norm", "a BatchNorm over all ranks");
  if (c.experiment.accumulation.batch_norm_update == train::BatchNormUpdate::per_step)
    refuse("accumulation.batch_norm_update", "per_step");
  if (c.experiment.quantization.training.get_if<quantization::QatConfig>() != nullptr)
    refuse("quantization.kind", "qat");
  if (config::traits_of(c.experiment.activation_checkpointing.blocks).recomputes)
    refuse("activation_checkpointing.kind", std::string(c.experiment.activation_checkpointing.blocks.kind()));
  if (c.experiment.activation_checkpointing.storage_dtype != activation_checkpointing::ActivationStorage::none)
    refuse("activation_checkpointing.storage_dtype", "bf16");
  if (c.experiment.activation_checkpointing.offload != activation_checkpointing::ActivationOffload::none)
    refuse("activation_checkpointing.offload", "cpu");
  if (c.experiment.optimizer.layer_decay) refuse("optimizer.layer_decay", "a rate for each block");
  if (c.experiment.model.convolution_algorithm == model::ConvolutionAlgorithm::direct)
    refuse("model.convolution_algorithm", "direct");
  if (c.experiment.amp.mode == amp::Precision::fp8) refuse("amp.mode", "fp8");
}

}  // namespace

model::Surroundings surroundings_of_network(const Experiment& experiment) {
  const task::TaskTraits& task = config::traits_of(experiment.task);
  const dataset::DatasetFacts facts = config::facts_of(experiment.dataset.source);
  const bool is_regression = facts.targets == dataset::Targets::values;
  const std::int64_t num_classes = known_classes(experiment.dataset.source);
  return {.task = experiment.task.kind(),
          .output = task.output,
          .has_classes = task.has_classes,
          .images = image_sides(experiment.dataset),
          .num_channels = facts.images() == nullptr ? 0 : *facts.images()->num_channels,
          .num_outputs = is_regression     ? std::optional<std::int64_t>(1)
                         : num_classes > 0 ? std::optional(num_classes)
                                           : std::nullopt,
          .longest = facts.longest_text()};
}

void check_model(Checked& checked) {
  check_scripted(checked);
  check_freeze(checked);
  check_lora(checked);
  check_mup(checked);
  check_input(checked);
  check_classes(checked);
  check_own_rules(checked);
  check_output(checked);
}

}  // namespace trainctl::experiment
