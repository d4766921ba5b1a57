// `model: {kind: layers}`. Part of model/config.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "config/field.h"
#include "layer_graph/config.h"
#include "layer_graph/infer.h"
#include "layer_graph/inspect.h"
#include "model/traits.h"

namespace trainctl::model {

/// pytorch: the defaults of torch.nn. kaiming: convolutions as torchvision's ResNet has them, normal by fan-out
/// (https://arxiv.org/abs/1502.01852). normal: weights normal with init_std, biases 0, as transformers have them.
enum class LayersInit { pytorch, kaiming, normal };

/// A network that the experiment itself lists, layer by layer.
struct LayersConfig {
  static constexpr std::string_view kind = "layers";
  layer_graph::LayerList layers;
  LayersInit init = LayersInit::pytorch;
  double init_std = 0.02;
  config::AutoOr<std::int64_t> num_classes;

  static constexpr auto fields() {
    using config::field;
    using C = LayersConfig;
    return config::Fields{
        field<&C::layers>("The layers, from the input to the output.", config::required & config::non_empty),
        field<&C::init>("First values of weights: `pytorch` as torch.nn has them, `kaiming` for deep convolutions with "
                        "ReLU, `normal` for transformers."),
        field<&C::init_std>("Standard deviation of `init: normal`.", config::positive),
        field<&C::num_classes>("What `auto` in a layer stands for; `auto` takes the dataset's.", config::at_least(1)),
    };
  }

  static constexpr ModelTraits traits{
      .input = Input::any,
      .outputs = Outputs{Output::per_sample, Output::per_token, Output::next_tokens, Output::per_pixel},
      .padding = Padding::in_classification,
      .has_token_types = false,
      .has_kv_cache = false,
      .is_recurrent = false,
      .has_convolutions = true,
      .embedding = "",
      .tied_output = "",
      .classifier = "",
      .transformers_type = "",
      .transformers_prefix = "",
      .has_transformers_names = false,
      .is_in_timm = false};
  SplitSizes split_sizes() const { return {}; }
  OwnSizes sizes() const { return only_classes(num_classes); }

  /// Whether the first layer reads token ids.
  bool takes_tokens() const { return !layers.empty() && layer_graph::reads_ids(layers.front()); }

  BrokenRules broken_rules(const Surroundings& around) const {
    if (layers.empty()) return {};  // which the field's limits report
    if (layer_graph::num_layers(layers) > layer_graph::kMostLayers)
      return {{{"model.layers"},
               "more than " + std::to_string(layer_graph::kMostLayers) +
                   " layers, counting each as often as `repeat` repeats it"}};
    const layer_graph::Shape input = input_shape(around);
    const layer_graph::Size outputs = num_classes.value ? num_classes.value : around.num_outputs;
    layer_graph::Inference inference = layer_graph::infer(layers, input, {.num_outputs = outputs}, "model.layers");
    if (!inference.fits()) return std::move(inference.problems);
    BrokenRules broken = layer_graph::mixed_causality(layers, "model.layers");
    const layer_graph::Shape& last = inference.outputs.back();
    const layer_graph::Shape expected = expected_shape(around.output, input, outputs);
    const auto differ = [](layer_graph::Size given, layer_graph::Size wanted) {
      return given && wanted && *given != *wanted;
    };
    if (last.form != expected.form || differ(last.features, expected.features) ||
        differ(last.height, expected.height) || differ(last.width, expected.width))
      broken.push_back({{"model.layers[" + std::to_string(layers.size() - 1) + "].kind", "model.kind", "task.kind"},
                        "the last layer gives " + last.text() + ", and task " + std::string(around.task) + " needs " +
                            expected.text()});
    return broken;
  }

  static LayersConfig starter() { return {.layers = layer_graph::starter_layers()}; }

 private:
  static layer_graph::Shape expected_shape(Output output, const layer_graph::Shape& input, layer_graph::Size outputs) {
    if (output == Output::per_pixel) return layer_graph::Shape::image(outputs, input.height, input.width);
    return output == Output::per_sample ? layer_graph::Shape::row(outputs)
                                        : layer_graph::Shape::tokens(input.length, outputs);
  }
  layer_graph::Shape input_shape(const Surroundings& around) const {
    if (around.num_channels > 0) {
      using layer_graph::Size;
      return layer_graph::Shape::image(around.num_channels, around.images ? Size(around.images->height) : Size(),
                                       around.images ? Size(around.images->width) : Size());
    }
    return takes_tokens() ? layer_graph::Shape::ids(around.longest) : layer_graph::Shape::row({});
  }
};

}  // namespace trainctl::model
