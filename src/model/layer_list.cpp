// Networks that the experiment lists layer by layer.
#include <cmath>
#include <optional>
#include <utility>

#include "core/error.h"
#include "layer_graph/infer.h"
#include "layer_graph/inspect.h"
#include "model/layer_list/list_layer.h"
#include "model/layers/linear.h"
#include "model/networks.h"

namespace trainctl::model {
namespace {

using layer_graph::Form;
using layer_graph::Shape;

constexpr const char* kPath = "model.layers";

Shape input_shape(const LayersConfig& config, const InputSpec& input) {
  if (input.vocab_size > 0) return Shape::ids(sequence_length(input, config.kind, input.shape[0]));
  if (input.shape.size() == 1) return Shape::row(input.shape[0]);
  const ImageShape image = image_shape(input, config.kind);
  return Shape::image(image.channels, image.height, image.width);
}

/// Returns the shapes between the layers. What only the data could tell is an Error now.
std::vector<Shape> shapes_of(const LayersConfig& config, const Shape& input, const layer_graph::DataSizes& data) {
  layer_graph::Inference inference = layer_graph::infer(config.layers, input, data, kPath);
  if (!inference.fits()) {
    const config::BrokenRule& problem = inference.problems.front();
    throw core::Error(problem.paths.front() + ": " + problem.message);
  }
  return std::move(inference.outputs);
}

/// Projection of hidden values to the vocabulary: the last layer of a language model.
class ListedVocabularyHead final : public VocabularyHead {
 public:
  /// Without first values of a bias there is none.
  ListedVocabularyHead(const std::string& name, std::int64_t features, std::int64_t vocab_size, Init weight,
                       std::optional<Init> bias)
      : weight_(parameter(name + ".weight", {vocab_size, features}, weight)),
        bias_(bias ? &parameter(name + ".bias", {vocab_size}, *bias) : nullptr) {}

  at::Tensor transform(const at::Tensor& hidden) override { return hidden; }
  at::Tensor weight() const override { return weight_; }
  at::Tensor bias() const override { return bias_ == nullptr ? at::Tensor() : *bias_; }

 private:
  at::Tensor& weight_;  // [V, D]
  at::Tensor* bias_;    // [V], or null
};

/// Layers of a network without tokens, where attention knows all that it needs before the first batch.
class ImageLayers final : public UnaryLayer {
 public:
  template <class... Args>
  explicit ImageLayers(bool is_causal, Args&&... args)
      : is_causal_(is_causal), layers_(child<ListLayer>("", std::forward<Args>(args)...)) {}
  at::Tensor compute(const at::Tensor& input) override { return layers_.forward(input, {.is_causal = is_causal_}); }

 private:
  bool is_causal_;
  ListLayer& layers_;
};

class LayerListModel final : public Model {
 public:
  LayerListModel(const LayersConfig& config, const InputSpec& input)
      : is_causal_(layer_graph::is_causal(config.layers).value_or(false)), takes_tokens_(input.vocab_size > 0) {
    const Shape first = input_shape(config, input);
    const Form last = shapes_of(config, first, {}).back().form;
    const bool is_language_model = takes_tokens_ && last == Form::tokens && input.num_classes == 0;
    const std::int64_t num_outputs =
        is_language_model ? input.vocab_size : num_outputs_or_one(config.num_classes, input);
    making_ = {.init = config.init,
               .init_std = config.init_std,
               .data = {.num_outputs = num_outputs},
               .vocab_size = input.vocab_size};
    const std::vector<Shape> shapes = shapes_of(config, first, making_.data);
    if (shapes.back().features != num_outputs)
      throw core::Error("the last layer of model.layers gives " + shapes.back().text() + ", and the data needs " +
                        std::to_string(num_outputs) + " outputs");
    std::vector<layer_graph::Run> units = layer_graph::units_of(config.layers);
    if (is_language_model) units.pop_back();
    for (const layer_graph::Run unit : units) add_unit(config.layers, unit, first, shapes);
    if (is_language_model) add_head(config, shapes);
    sizes_ = {.vocab_size = input.vocab_size, .num_outputs = is_language_model ? 0 : num_outputs};
  }

  double flops_per_sample() const override { return making_.flops; }
  std::optional<ListedSizes> listed_sizes() const override { return sizes_; }
  bool prefers_channels_last() const override { return making_.has_convolutions; }

 protected:
  SequenceContext context(const ModelInput& input) const override {
    if (!takes_tokens_) return {};
    core::ensure(input.cache == nullptr, "a list of layers keeps no keys and values");
    return make_context(input, is_causal_ ? Causality::causal : Causality::bidirectional);
  }

 private:
  void add_unit(const layer_graph::LayerList& layers, layer_graph::Run unit, const Shape& first,
                const std::vector<Shape>& shapes) {
    const std::string name = layer_graph::name_of(layers[unit.begin], unit.begin);
    const Shape& input = unit.begin == 0 ? first : shapes[unit.begin - 1];
    const auto* repeated = layers[unit.begin].layer.get_if<layer_graph::RepeatLayer>();
    if (repeated == nullptr || unit.end - unit.begin > 1)
      return add_list(name, "", layers, unit, input, shapes, making_);
    Shape shape = input;
    for (std::int64_t i = 0; i < repeated->times; ++i) {  // each time is a block
      const std::string own = name + "." + std::to_string(i);
      add_list(own, own, repeated->layers, shape, making_);
      shape = layer_graph::infer(repeated->layers, shape, making_.data, "").outputs.back();
    }
  }

  /// Adds a block. Its parameters' names begin with `prefix`.
  template <class... Args>
  void add_list(const std::string& name, const std::string& prefix, Args&&... args) {
    if (takes_tokens_) return add_block(name, child<ListLayer>(prefix, std::forward<Args>(args)...));
    add_block(name, child<ImageLayers>(prefix, is_causal_, std::forward<Args>(args)...));
  }

  void add_head(const LayersConfig& config, const std::vector<Shape>& shapes) {
    const std::size_t last = config.layers.size() - 1;
    const auto* linear = config.layers[last].layer.get_if<layer_graph::LinearLayer>();
    if (linear == nullptr || last == 0)
      throw core::Error("the last layer of a language model is linear, got " +
                        std::string(config.layers[last].layer.kind()))
          .hint("end model.layers with `linear`");
    const Shape& hidden = shapes[last - 1];
    const bool is_normal = config.init == LayersInit::normal;
    const Init weight = is_normal ? Init::normal(0, config.init_std)
                                  : Init::uniform(1 / std::sqrt(static_cast<double>(*hidden.features)));
    const Init bias = is_normal ? Init::constant(0) : weight;  // as in Linear
    const std::string name = layer_graph::name_of(config.layers[last], last);
    auto& head = child<ListedVocabularyHead>("", name, *hidden.features, *shapes[last].features, weight,
                                             linear->bias ? std::optional(bias) : std::nullopt);
    add_vocabulary_head(name, head);
    making_.flops += 2.0 * static_cast<double>(*hidden.features * *shapes[last].features * *hidden.length);
  }

  bool is_causal_;
  bool takes_tokens_;
  ListMaking making_;
  ListedSizes sizes_;
};

}  // namespace

std::unique_ptr<Model> build(const LayersConfig& config, const InputSpec& input) {
  return std::make_unique<LayerListModel>(config, input);
}

}  // namespace trainctl::model
