#include "model/layer_list/operators.h"

#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_nearest2d.h>

#include <cmath>

#include "kernels/gelu.h"
#include "model/layers/pooling.h"

namespace trainctl::model {
namespace {

using layer_graph::Activation;
using Function = std::optional<Operator::Function>;

at::Tensor activate(Activation function, const at::Tensor& x) {
  switch (function) {
    case Activation::relu:
      return at::relu(x);
    case Activation::relu6:
      return at::hardtanh(x, 0, 6);
    case Activation::silu:
      return at::silu(x);
    case Activation::mish:
      return at::mish(x);
    case Activation::sigmoid:
      return at::sigmoid(x);
    case Activation::tanh:
      return at::tanh(x);
    case Activation::hardswish:
      return at::hardswish(x);
    case Activation::hardsigmoid:
      return at::hardsigmoid(x);
    case Activation::softplus:
      break;
  }
  return at::softplus(x);
}

/// For every other layer.
template <class Layer>
Function function(const Layer&) {
  return std::nullopt;
}
template <Activation A>
Function function(const layer_graph::ActivationLayer<A>&) {
  return [](const at::Tensor& x) { return activate(A, x); };
}
Function function(const layer_graph::GeluLayer& layer) {
  const auto form = layer.approximate == layer_graph::GeluForm::tanh ? kernels::Gelu::tanh : kernels::Gelu::erf;
  return [form](const at::Tensor& x) { return kernels::gelu(x, form); };
}
Function function(const layer_graph::LeakyReluLayer& layer) {
  return [slope = layer.negative_slope](const at::Tensor& x) { return at::leaky_relu(x, slope); };
}
Function function(const layer_graph::EluLayer& layer) {
  return [alpha = layer.alpha](const at::Tensor& x) { return at::elu(x, alpha); };
}
Function function(const layer_graph::MaxPoolLayer& layer) {
  return [layer, stride = layer.stride.value.value_or(layer.kernel_size)](const at::Tensor& x) {
    return at::max_pool2d(x, {layer.kernel_size, layer.kernel_size}, {stride, stride}, {layer.padding, layer.padding});
  };
}
Function function(const layer_graph::AvgPoolLayer& layer) {
  return [layer, stride = layer.stride.value.value_or(layer.kernel_size)](const at::Tensor& x) {
    return at::avg_pool2d(x, {layer.kernel_size, layer.kernel_size}, {stride, stride}, {layer.padding, layer.padding});
  };
}
Function function(const layer_graph::GlobalAvgPoolLayer& layer) {
  return [keep = layer.keep_dims](const at::Tensor& x) { return x.mean({2, 3}, keep); };
}
Function function(const layer_graph::UpsampleLayer& layer) {
  return [layer](const at::Tensor& x) {
    const std::vector<std::int64_t> size{x.size(2) * layer.scale_factor, x.size(3) * layer.scale_factor};
    return layer.mode == layer_graph::UpsampleMode::nearest ? at::upsample_nearest2d(x, size)
                                                            : at::upsample_bilinear2d(x, size, /*align_corners=*/false);
  };
}
Function function(const layer_graph::FlattenLayer&) {
  return [](const at::Tensor& x) { return x.flatten(1); };
}
Function function(const layer_graph::ImageToTokensLayer&) {
  return [](const at::Tensor& x) { return x.flatten(2).transpose(1, 2); };
}
Function function(const layer_graph::FirstTokenLayer&) {
  return [](const at::Tensor& x) { return x.select(1, 0); };
}

}  // namespace

std::optional<Operator::Function> function_of(const layer_graph::LayerConfig& layer) {
  return layer.layer.visit([](const auto& one) { return function(one); });
}

PlugInLayer::PlugInLayer(const layer_graph::PluggedLayer& config, const layer_graph::Shape& input)
    : layer_(static_cast<UnaryLayer*>(config.interface().make(config.config(), input))) {
  adopt(std::unique_ptr<Layer>(layer_));
}

GroupNorm::GroupNorm(std::int64_t channels, std::int64_t groups, double epsilon)
    : weight_(parameter("weight", {channels}, Init::constant(1))),
      bias_(parameter("bias", {channels}, Init::constant(0))),
      groups_(groups),
      epsilon_(epsilon) {}

at::Tensor GroupNorm::compute(const at::Tensor& input) {
  return at::group_norm(input, groups_, weight_, bias_, epsilon_);
}

LayerScale::LayerScale(const std::string& name, const layer_graph::Shape& input, double init_value)
    : factors_(parameter(name, {*input.features}, Init::constant(init_value))),
      is_image_(input.form == layer_graph::Form::image) {}

at::Tensor LayerScale::compute(const at::Tensor& input) {
  return input.mul(is_image_ ? factors_.view({-1, 1, 1}) : factors_);
}

TransposedConvolution::TransposedConvolution(const TransposedConvolutionSpec& spec)
    : layer_(spec.layer),
      weight_(parameter("weight", {spec.in_channels, spec.out_channels, spec.layer.kernel_size, spec.layer.kernel_size},
                        Init::uniform(1 / std::sqrt(static_cast<double>(spec.out_channels * spec.layer.kernel_size *
                                                                        spec.layer.kernel_size))))),
      bias_(
          spec.layer.bias
              ? &parameter("bias", {spec.out_channels},
                           Init::uniform(1 / std::sqrt(static_cast<double>(spec.out_channels * spec.layer.kernel_size *
                                                                           spec.layer.kernel_size))))
              : nullptr) {}

at::Tensor TransposedConvolution::compute(const at::Tensor& input) {
  return at::conv_transpose2d(input, weight_, bias_ == nullptr ? at::Tensor() : *bias_, {layer_.stride, layer_.stride},
                              {layer_.padding, layer_.padding}, {layer_.output_padding, layer_.output_padding});
}

PositionEmbedding::PositionEmbedding(std::int64_t length, std::int64_t features)
    : weight_(parameter("weight", {length, features}, Init::normal(0, 0.02))) {}

at::Tensor PositionEmbedding::compute(const at::Tensor& input, const SequenceContext& context) {
  return input.add(context.positions.defined() ? at::embedding(weight_, context.positions)
                                               : weight_.narrow(0, 0, input.size(1)));
}

SelfAttention::SelfAttention(std::int64_t features, const layer_graph::AttentionLayer& layer, std::optional<Init> init)
    : qkv_(add_matrix("qkv", features, 3 * features, layer, init)),
      projection_(add_matrix("proj", features, features, layer, init)),
      num_heads_(layer.num_heads),
      dropout_(layer.dropout) {}

Linear& SelfAttention::add_matrix(std::string name, std::int64_t inputs, std::int64_t outputs,
                                  const layer_graph::AttentionLayer& layer, std::optional<Init> init) {
  const Bias bias = layer.bias ? Bias::learned : Bias::none;
  return init ? child<Linear>(std::move(name), inputs, outputs, *init, bias)
              : child<Linear>(std::move(name), inputs, outputs, bias);
}

at::Tensor SelfAttention::compute(const at::Tensor& input, const SequenceContext& context) {
  const at::Tensor heads = attend(qkv_.forward(input), num_heads_, context, {.dropout = is_training() ? dropout_ : 0});
  return projection_.forward(merge_heads(heads));
}

at::Tensor MeanOfTokens::compute(const at::Tensor& input, const SequenceContext& context) {
  return mean_of_tokens(input, context.key_mask);
}

}  // namespace trainctl::model
