// `model: {kind: layers, layers: [...]}`: a network as a list of layers. Names and meanings are those of torch.nn.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "layer_graph/activation_layers.h"
#include "layer_graph/image_layers.h"
#include "layer_graph/plugged_layer.h"

namespace trainctl::layer_graph {

struct LayerConfig;
using LayerList = std::vector<LayerConfig>;

struct LinearLayer {
  static constexpr std::string_view kind = "linear";
  config::AutoOr<std::int64_t> features;
  bool bias = true;

  static constexpr auto fields() {
    using config::field;
    using C = LinearLayer;
    return config::Fields{
        field<&C::features>("Outputs; `auto`: as many as the data has classes, or tokens in its vocabulary.",
                            config::at_least(1)),
        field<&C::bias>("Add a bias."),
    };
  }
};

struct BatchNormLayer {
  static constexpr std::string_view kind = "batch_norm";
  double eps = 1e-5;
  double momentum = 0.1;
  double init_weight = 1;

  static constexpr auto fields() {
    using config::field;
    using C = BatchNormLayer;
    return config::Fields{
        field<&C::eps>("Added to the variance.", config::positive),
        field<&C::momentum>("Share of a new batch in the running statistics.", config::fraction),
        field<&C::init_weight>("First value of the weight; 0 makes a residual branch begin as the identity."),
    };
  }
};

struct LayerNormLayer {
  static constexpr std::string_view kind = "layer_norm";
  double eps = 1e-5;
  static constexpr auto fields() {
    return config::Fields{config::field<&LayerNormLayer::eps>("Added to the variance.", config::positive)};
  }
};

struct RmsNormLayer {
  static constexpr std::string_view kind = "rms_norm";
  double eps = 1e-6;
  static constexpr auto fields() {
    return config::Fields{config::field<&RmsNormLayer::eps>("Added to the mean square.", config::positive)};
  }
};

struct GroupNormLayer {
  static constexpr std::string_view kind = "group_norm";
  std::int64_t groups = 32;
  double eps = 1e-5;
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&GroupNormLayer::groups>("Parts of the channels, each normalised by itself; they divide the channels.",
                                       config::at_least(1)),
        field<&GroupNormLayer::eps>("Added to the variance.", config::positive),
    };
  }
};

struct LayerScaleLayer {
  static constexpr std::string_view kind = "layer_scale";
  double init_value = 1e-6;
  static constexpr auto fields() {
    return config::Fields{config::field<&LayerScaleLayer::init_value>(
        "First value of the learned factor of each channel or feature (https://arxiv.org/abs/2103.17239). The factors "
        "are one parameter, with the layer's name.",
        config::positive)};
  }
};

/// Layers without settings, by what they do to shapes.
struct FlattenLayer {
  static constexpr std::string_view kind = "flatten";
  static constexpr auto fields() { return config::Fields{}; }
};

struct ImageToTokensLayer {
  static constexpr std::string_view kind = "image_to_tokens";
  static constexpr auto fields() { return config::Fields{}; }
};

struct MeanOfTokensLayer {
  static constexpr std::string_view kind = "mean_of_tokens";
  static constexpr auto fields() { return config::Fields{}; }
};

struct FirstTokenLayer {
  static constexpr std::string_view kind = "first_token";
  static constexpr auto fields() { return config::Fields{}; }
};

struct DropoutLayer {
  static constexpr std::string_view kind = "dropout";
  double p = 0.5;
  static constexpr auto fields() {
    return config::Fields{config::field<&DropoutLayer::p>("Share of the elements that become 0.", config::below_one)};
  }
};

struct DropPathLayer {
  static constexpr std::string_view kind = "drop_path";
  double p = 0.1;
  static constexpr auto fields() {
    return config::Fields{config::field<&DropPathLayer::p>(
        "Share of the samples that become 0 (https://arxiv.org/abs/1603.09382).", config::below_one)};
  }
};

struct EmbeddingLayer {
  static constexpr std::string_view kind = "embedding";
  std::int64_t features = 256;
  static constexpr auto fields() {
    return config::Fields{config::field<&EmbeddingLayer::features>("Numbers for each token of the data's vocabulary.",
                                                                   config::required & config::at_least(1))};
  }
};

struct PositionEmbeddingLayer {
  static constexpr std::string_view kind = "position_embedding";
  config::AutoOr<std::int64_t> length;
  static constexpr auto fields() {
    return config::Fields{config::field<&PositionEmbeddingLayer::length>(
        "Positions, one vector each, added to the tokens; `auto`: as many as the data's longest sequence.",
        config::at_least(1))};
  }
};

struct AttentionLayer {
  static constexpr std::string_view kind = "attention";
  std::int64_t num_heads = 4;
  bool causal = false;
  double dropout = 0;
  bool bias = true;

  static constexpr auto fields() {
    using config::field;
    using C = AttentionLayer;
    return config::Fields{
        field<&C::num_heads>("Heads; they divide the features.", config::required & config::at_least(1)),
        field<&C::causal>("A token sees only itself and earlier ones: for language models."),
        field<&C::dropout>("Dropout of attention weights.", config::below_one),
        field<&C::bias>("Add biases to both products."),
    };
  }
};

/// layers of each, one after the other.
struct SequenceLayer {
  static constexpr std::string_view kind = "sequence";
  LayerList layers;
  static constexpr auto fields() {
    return config::Fields{
        config::field<&SequenceLayer::layers>("Layers, one after the other.", config::required & config::non_empty)};
  }
};

struct RepeatLayer {
  static constexpr std::string_view kind = "repeat";
  std::int64_t times = 1;
  LayerList layers;
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&RepeatLayer::times>("How often; each time with weights of its own.",
                                   config::required & config::between(1, 1000)),
        field<&RepeatLayer::layers>("Layers, one after the other.", config::required & config::non_empty),
    };
  }
};

struct ResidualLayer {
  static constexpr std::string_view kind = "residual";
  LayerList layers;
  LayerList shortcut;
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&ResidualLayer::layers>("Layers of the branch, whose output is added to the shortcut's.",
                                      config::required & config::non_empty),
        field<&ResidualLayer::shortcut>("Layers of the shortcut; empty: the input itself."),
    };
  }
};

/// The operands of a layer that combines several tensors.
inline constexpr std::string_view kBranchesHelp =
    "Lists of layers, each given the same input; an empty list is the input itself.";
inline constexpr std::string_view kWithHelp =
    "Names of earlier layers of the same list, whose outputs follow those of the branches (or the input, where there "
    "are none).";

struct AddLayer {
  static constexpr std::string_view kind = "add";
  std::vector<LayerList> branches;
  std::vector<std::string> with;
  static constexpr auto fields() {
    return config::Fields{config::field<&AddLayer::branches>(kBranchesHelp), config::field<&AddLayer::with>(kWithHelp)};
  }
};

struct MultiplyLayer {
  static constexpr std::string_view kind = "multiply";
  std::vector<LayerList> branches;
  std::vector<std::string> with;
  static constexpr auto fields() {
    return config::Fields{config::field<&MultiplyLayer::branches>(kBranchesHelp),
                          config::field<&MultiplyLayer::with>(kWithHelp)};
  }
};

struct ConcatLayer {
  static constexpr std::string_view kind = "concat";
  std::vector<LayerList> branches;
  std::vector<std::string> with;
  static constexpr auto fields() {
    return config::Fields{config::field<&ConcatLayer::branches>(kBranchesHelp),
                          config::field<&ConcatLayer::with>(kWithHelp)};
  }
};

using LayerKind = config::OneOf<
    Conv2dLayer, DepthwiseConv2dLayer, ConvTranspose2dLayer, LinearLayer, EmbeddingLayer, PositionEmbeddingLayer,
    AttentionLayer, BatchNormLayer, LayerNormLayer, RmsNormLayer, GroupNormLayer, LayerScaleLayer,
    ActivationLayer<Activation::relu>, ActivationLayer<Activation::relu6>, ActivationLayer<Activation::silu>,
    ActivationLayer<Activation::mish>, ActivationLayer<Activation::sigmoid>, ActivationLayer<Activation::tanh>,
    ActivationLayer<Activation::hardswish>, ActivationLayer<Activation::hardsigmoid>,
    ActivationLayer<Activation::softplus>, GeluLayer, LeakyReluLayer, EluLayer, DropoutLayer, DropPathLayer,
    MaxPoolLayer, AvgPoolLayer, GlobalAvgPoolLayer, UpsampleLayer, FlattenLayer, ImageToTokensLayer, MeanOfTokensLayer,
    FirstTokenLayer, SequenceLayer, RepeatLayer, ResidualLayer, AddLayer, MultiplyLayer, ConcatLayer, PluggedLayer>;

struct LayerConfig {
  LayerKind layer;
  std::optional<std::string> name{};

  static constexpr auto fields() {
    using config::choice;
    using config::field;
    return config::Fields{
        choice<&LayerConfig::layer>("What the layer does.", config::required),
        field<&LayerConfig::name>("Its name in parameters' names, and in `with`; its number in the list unless given.",
                                  config::non_empty),
    };
  }
};

}  // namespace trainctl::layer_graph
