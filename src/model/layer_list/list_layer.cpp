#include "model/layer_list/list_layer.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <concepts>
#include <utility>

#include "core/error.h"
#include "model/layer_list/operators.h"
#include "model/layers/activation.h"
#include "model/layers/batch_norm.h"
#include "model/layers/convolution.h"
#include "model/layers/drop_path.h"
#include "model/layers/dropout.h"
#include "model/layers/embedding.h"
#include "model/layers/layer_norm.h"
#include "model/layers/rms_norm.h"
#include "model/networks.h"

namespace trainctl::model {
namespace {

using layer_graph::Form;
using layer_graph::LayerConfig;
using layer_graph::LayerList;
using layer_graph::Shape;

/// Returns how often a layer for rows or tokens works on one sample.
double rows_of(const Shape& shape) {
  return shape.form == Form::tokens ? static_cast<double>(*shape.length) : 1;
}

ImageShape image_of(const Shape& shape) {
  return {.channels = *shape.features, .height = *shape.height, .width = *shape.width};
}

/// Whether autograd doesn't need what the layer gives, so that it may be changed.
bool gives_its_own(const LayerConfig& config) {
  return config.layer.visit([]<class Layer>(const Layer&) {
    return std::same_as<Layer, layer_graph::Conv2dLayer> || std::same_as<Layer, layer_graph::DepthwiseConv2dLayer> ||
           std::same_as<Layer, layer_graph::ConvTranspose2dLayer> || std::same_as<Layer, layer_graph::LinearLayer> ||
           std::same_as<Layer, layer_graph::BatchNormLayer> || std::same_as<Layer, layer_graph::ResidualLayer>;
  });
}

bool is_relu(const LayerConfig& config) {
  return config.layer.get_if<layer_graph::ActivationLayer<layer_graph::Activation::relu>>() != nullptr;
}

ConvolutionInit convolution_init(const ListMaking& making) {
  return making.init == LayersInit::kaiming ? ConvolutionInit::normal_fan_out : ConvolutionInit::uniform_fan_in;
}

/// Returns the values of matrices; none: those of torch.nn.
std::optional<Init> matrix_init(const ListMaking& making) {
  return making.init == LayersInit::normal ? std::optional(Init::normal(0, making.init_std)) : std::nullopt;
}

Bias bias_of(bool has_bias) {
  return has_bias ? Bias::learned : Bias::none;
}

/// Returns the output of a list.
Shape output_of(const LayerList& list, const Shape& input, const ListMaking& making) {
  return list.empty() ? input : layer_graph::infer(list, input, making.data, "").outputs.back();
}

std::optional<ConvolutionSpec> convolution_spec(const LayerConfig& config, const Shape& input, const Shape& output,
                                                const ListMaking& making) {
  ConvolutionSpec spec{.in_channels = *input.features,
                       .out_channels = *output.features,
                       .kernel_size = 1,
                       .init = convolution_init(making)};
  const auto take = [&](const auto& layer, std::int64_t groups) {
    spec.kernel_size = layer.kernel_size;
    spec.stride = layer.stride;
    spec.bias = bias_of(layer.bias);
    spec.padding = layer.padding.value;
    spec.dilation = layer.dilation;
    spec.groups = groups;
    return spec;
  };
  if (const auto* layer = config.layer.get_if<layer_graph::Conv2dLayer>()) return take(*layer, layer->groups);
  if (const auto* layer = config.layer.get_if<layer_graph::DepthwiseConv2dLayer>())
    return take(*layer, spec.in_channels);
  return std::nullopt;
}

at::Tensor merged(const layer_graph::AddLayer&, const at::Tensor& a, const at::Tensor& b) {
  return a.add(b);
}
at::Tensor merged(const layer_graph::MultiplyLayer&, const at::Tensor& a, const at::Tensor& b) {
  return a.mul(b);
}

}  // namespace

ListLayer::ListLayer(const LayerList& list, layer_graph::Run run, const Shape& input, const std::vector<Shape>& shapes,
                     ListMaking& making) {
  for (std::size_t i = run.begin; i < run.end; ++i) {
    const bool in_place = i > run.begin && gives_its_own(list[i - 1]) && !list[i - 1].name;
    const Shape& before = i == run.begin ? input : shapes[i - 1];
    steps_.push_back(make(list[i], layer_graph::name_of(list[i], i), before, shapes[i], in_place, making));
  }
}

ListLayer::ListLayer(const LayerList& list, const Shape& input, ListMaking& making)
    : ListLayer(list, {0, list.size()}, input, layer_graph::infer(list, input, making.data, "").outputs, making) {}

at::Tensor ListLayer::compute(const at::Tensor& input, const SequenceContext& context) {
  Named named;
  at::Tensor value = input;
  for (const Step& step : steps_) {
    value = step.work(value, context, named);
    if (step.name) named.emplace_back(*step.name, value);
  }
  return value;
}

ListLayer::Step ListLayer::make(const LayerConfig& config, const std::string& name, const Shape& input,
                                const Shape& output, bool in_place, ListMaking& making) {
  if (in_place && is_relu(config))
    return {[](const at::Tensor& x, const SequenceContext&, const Named&) { return relu_in_place(x); }, config.name};
  Work work = config.layer.visit([&]<class Layer>(const Layer& layer) -> Work {
    if constexpr (requires { layer.with; }) return combine(layer, name, input, making);
    if constexpr (std::same_as<Layer, layer_graph::RepeatLayer>) return repeat(layer, name, input, making);
    if constexpr (std::same_as<Layer, layer_graph::ResidualLayer>) return residual(layer, name, input, making);
    if constexpr (std::same_as<Layer, layer_graph::SequenceLayer>) {
      auto& inner = child<ListLayer>(name, layer.layers, input, making);
      return [&inner](const at::Tensor& x, const SequenceContext& context, const Named&) {
        return inner.forward(x, context);
      };
    }
    return make_leaf(config, name, input, output, making);
  });
  return {std::move(work), config.name};
}

ListLayer::Work ListLayer::make_leaf(const LayerConfig& config, const std::string& name, const Shape& input,
                                     const Shape& output, ListMaking& making) {
  const auto unary = [](UnaryLayer& layer) -> Work {
    return [&layer](const at::Tensor& x, const SequenceContext&, const Named&) { return layer.forward(x); };
  };
  const auto sequence = [](SequenceLayer& layer) -> Work {
    return [&layer](const at::Tensor& x, const SequenceContext& context, const Named&) {
      return layer.forward(x, context);
    };
  };
  if (std::optional<Operator::Function> function = function_of(config))
    return unary(child<Operator>(name, std::move(*function)));
  if (const std::optional<ConvolutionSpec> spec = convolution_spec(config, input, output, making)) {
    auto& layer = child<Convolution>(name, *spec);
    making.flops += layer.flops(image_of(input));
    making.has_convolutions = true;
    return unary(layer);
  }
  return config.layer.visit([&]<class Layer>(const Layer& layer) -> Work {
    if constexpr (std::same_as<Layer, layer_graph::LinearLayer>) {
      const std::optional<Init> init = matrix_init(making);
      Linear& linear = init ? child<Linear>(name, *input.features, *output.features, *init, bias_of(layer.bias))
                            : child<Linear>(name, *input.features, *output.features, bias_of(layer.bias));
      making.flops += linear.flops() * rows_of(input);
      return unary(linear);
    }
    if constexpr (std::same_as<Layer, layer_graph::ConvTranspose2dLayer>) {
      auto& up =
          child<TransposedConvolution>(name, TransposedConvolutionSpec{*input.features, *output.features, layer});
      making.flops += up.flops() * static_cast<double>(image_of(input).pixels());
      making.has_convolutions = true;
      return unary(up);
    }
    if constexpr (std::same_as<Layer, layer_graph::AttentionLayer>) {
      auto& attention = child<SelfAttention>(name, *input.features, layer, matrix_init(making));
      making.flops += (attention.flops() + attention_flops(*input.length, *input.features)) * rows_of(input);
      return sequence(attention);
    }
    if constexpr (std::same_as<Layer, layer_graph::EmbeddingLayer>)
      return unary(
          child<Embedding>(name, making.vocab_size, layer.features, matrix_init(making).value_or(Init::normal(0, 1))));
    if constexpr (std::same_as<Layer, layer_graph::PositionEmbeddingLayer>)
      return sequence(child<PositionEmbedding>(name, layer.length.value.value_or(*input.length), *input.features));
    if constexpr (std::same_as<Layer, layer_graph::MeanOfTokensLayer>) return sequence(child<MeanOfTokens>(name));
    if constexpr (std::same_as<Layer, layer_graph::LayerScaleLayer>)
      return unary(child<LayerScale>("", name, input, layer.init_value));
    if (UnaryLayer* const norm = add_norm(config, name, input)) return unary(*norm);
    if constexpr (std::same_as<Layer, layer_graph::DropoutLayer>) return unary(child<Dropout>(name, layer.p));
    if constexpr (std::same_as<Layer, layer_graph::DropPathLayer>) return unary(child<DropPath>(name, layer.p));
    if constexpr (std::same_as<Layer, layer_graph::PluggedLayer>) {
      making.flops += layer.interface().flops(layer.config(), input);
      return unary(child<PlugInLayer>(name, layer, input));
    }
    core::ensure(false, "a layer of a list is a function, or has a case here");
    return {};
  });
}

UnaryLayer* ListLayer::add_norm(const LayerConfig& config, const std::string& name, const Shape& input) {
  const std::int64_t features = input.features.value_or(0);
  if (const auto* batch = config.layer.get_if<layer_graph::BatchNormLayer>())
    return &child<BatchNorm>(
        name, BatchNormSpec{
                  .channels = features, .weight = batch->init_weight, .eps = batch->eps, .momentum = batch->momentum});
  const auto over_features = [&]<class Norm>(std::type_identity<Norm>, double eps) -> UnaryLayer* {
    if (input.form == Form::image) return &child<PixelNorm<Norm>>(name, features, eps);
    return &child<Norm>(name, features, eps);
  };
  if (const auto* layer = config.layer.get_if<layer_graph::LayerNormLayer>())
    return over_features(std::type_identity<LayerNorm>(), layer->eps);
  if (const auto* rms = config.layer.get_if<layer_graph::RmsNormLayer>())
    return over_features(std::type_identity<RmsNorm>(), rms->eps);
  if (const auto* group = config.layer.get_if<layer_graph::GroupNormLayer>())
    return &child<GroupNorm>(name, features, group->groups, group->eps);
  return nullptr;
}

template <class Kind>
ListLayer::Work ListLayer::combine(const Kind& config, const std::string& name, const Shape& input,
                                   ListMaking& making) {
  std::vector<ListLayer*> branches;  // null: the input itself
  for (std::size_t i = 0; i < config.branches.size(); ++i)
    branches.push_back(config.branches[i].empty() ? nullptr
                                                  : &child<ListLayer>(name + ".branches." + std::to_string(i),
                                                                      config.branches[i], input, making));
  if (branches.empty()) branches.push_back(nullptr);
  // Channels of images, and features of rows and tokens.
  const std::int64_t dim = input.form == Form::tokens ? 2 : 1;
  return [branches, config, dim](const at::Tensor& x, const SequenceContext& context, const Named& named) {
    std::vector<at::Tensor> operands;
    for (ListLayer* branch : branches) operands.push_back(branch == nullptr ? x : branch->forward(x, context));
    for (const std::string& other : config.with)
      operands.push_back(
          std::find_if(named.begin(), named.end(), [&](const auto& one) { return one.first == other; })->second);
    if constexpr (std::same_as<Kind, layer_graph::ConcatLayer>) {
      return at::cat(operands, dim);
    } else {
      at::Tensor result = operands.front();
      for (std::size_t i = 1; i < operands.size(); ++i) result = merged(config, result, operands[i]);
      return result;
    }
  };
}

ListLayer::Work ListLayer::repeat(const layer_graph::RepeatLayer& config, const std::string& name, Shape shape,
                                  ListMaking& making) {
  std::vector<ListLayer*> each;
  for (std::int64_t i = 0; i < config.times; ++i) {
    each.push_back(&child<ListLayer>(name + "." + std::to_string(i), config.layers, shape, making));
    shape = output_of(config.layers, shape, making);
  }
  return [each](const at::Tensor& x, const SequenceContext& context, const Named&) {
    at::Tensor value = x;
    for (ListLayer* layer : each) value = layer->forward(value, context);
    return value;
  };
}

ListLayer::Work ListLayer::residual(const layer_graph::ResidualLayer& config, const std::string& name,
                                    const Shape& input, ListMaking& making) {
  auto& branch = child<ListLayer>(name + ".layers", config.layers, input, making);
  ListLayer* const shortcut =
      config.shortcut.empty() ? nullptr : &child<ListLayer>(name + ".shortcut", config.shortcut, input, making);
  const bool in_place = gives_its_own(config.layers.back());
  return [&branch, shortcut, in_place](const at::Tensor& x, const SequenceContext& context, const Named&) {
    const at::Tensor value = branch.forward(x, context);
    const at::Tensor other = shortcut == nullptr ? x : shortcut->forward(x, context);
    return in_place ? value.add_(other) : value.add(other);
  };
}

}  // namespace trainctl::model
