// `model:`: the network, by name. Input shape comes from the dataset.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "config/field.h"
#include "model/bert_config.h"
#include "model/fasttext_config.h"
#include "model/layers_config.h"
#include "model/llama_config.h"
#include "model/lora_config.h"
#include "model/lstm_config.h"
#include "model/mup_config.h"
#include "model/plugged_network.h"
#include "model/sequence_config.h"
#include "model/t5_config.h"
#include "model/torchscript_config.h"
#include "model/traits.h"
#include "model/vit_config.h"
#include "model/width.h"

namespace trainctl::model {

struct MlpConfig {
  static constexpr std::string_view kind = "mlp";
  std::vector<std::int64_t> hidden = {256, 256};
  double dropout = 0;
  config::AutoOr<std::int64_t> num_classes;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&MlpConfig::hidden>("Width of each hidden layer; ReLU follows each.", config::at_least(1)),
        field<&MlpConfig::dropout>("Dropout after each hidden layer.", config::below_one),
        field<&MlpConfig::num_classes>("Outputs; `auto` takes the dataset's.", config::at_least(1)),
    };
  }

  static constexpr ModelTraits traits{.input = Input::numbers,
                                      .outputs = Outputs{Output::per_sample},
                                      .padding = Padding::none,
                                      .has_token_types = false,
                                      .has_kv_cache = false,
                                      .is_recurrent = false,
                                      .has_convolutions = false,
                                      .embedding = "",
                                      .tied_output = "",
                                      .classifier = "head.linear.weight",
                                      .transformers_type = "",
                                      .transformers_prefix = "",
                                      .has_transformers_names = false,
                                      .is_in_timm = false};
  SplitSizes split_sizes() const { return {}; }
  OwnSizes sizes() const { return only_classes(num_classes); }
  BrokenRules broken_rules(const Surroundings&) const {
    if (dropout == 0 || !hidden.empty()) return {};
    return {{{"model.dropout", "model.hidden", "model.kind"},
             "changes nothing while model.hidden is empty: it follows hidden layers"}};
  }
  static MlpConfig starter() { return {}; }
};

/// Convolutions with ReLU, 2×2 max pooling after the last ones, one hidden linear layer.
struct CnnConfig {
  static constexpr std::string_view kind = "cnn";
  std::vector<std::int64_t> channels = {16, 32};
  std::int64_t kernel_size = 3;
  std::optional<std::int64_t> num_pools;
  bool batch_norm = false;
  std::int64_t hidden = 128;
  double dropout = 0;
  config::AutoOr<std::int64_t> num_classes;

  static constexpr auto fields() {
    using config::field;
    using C = CnnConfig;
    return config::Fields{
        field<&C::channels>("Output channels of each convolution (stride 1, same size).",
                            config::non_empty & config::at_least(1)),
        field<&C::kernel_size>("Side of every convolution's kernel; odd.", config::between(1, 31)),
        field<&C::num_pools>("2×2 max pooling follows each of the last this many convolutions; null means all of them.",
                             config::at_least(0)),
        field<&C::batch_norm>("BatchNorm between each convolution (then without bias) and its ReLU."),
        field<&C::hidden>("Width of the hidden linear layer; 0 leaves it out.", config::at_least(0)),
        field<&C::dropout>("Dropout before the last linear layer.", config::below_one),
        field<&C::num_classes>("Outputs; `auto` takes the dataset's.", config::at_least(1)),
    };
  }

  static constexpr ModelTraits traits{.input = Input::images,
                                      .outputs = Outputs{Output::per_sample},
                                      .padding = Padding::none,
                                      .has_token_types = false,
                                      .has_kv_cache = false,
                                      .is_recurrent = false,
                                      .has_convolutions = true,
                                      .embedding = "",
                                      .tied_output = "",
                                      .classifier = "head.fc.weight",
                                      .transformers_type = "",
                                      .transformers_prefix = "",
                                      .has_transformers_names = false,
                                      .is_in_timm = false};
  SplitSizes split_sizes() const { return {}; }
  OwnSizes sizes() const { return only_classes(num_classes); }
  BrokenRules broken_rules(const Surroundings&) const {
    BrokenRules broken;
    if (kernel_size % 2 == 0)
      broken.push_back(
          {{"model.kernel_size", "model.kind"},
           "expected an odd number, so that the image keeps its size, got " + std::to_string(kernel_size)});
    if (num_pools && *num_pools > static_cast<std::int64_t>(channels.size()))
      broken.push_back(
          {{"model.num_pools", "model.channels", "model.kind"},
           "each pooling follows a convolution, and there are " + std::to_string(channels.size()) + " of them"});
    return broken;
  }
  static CnnConfig starter() { return {}; }
};

/// imagenet: 7×7 stride 2, then 3×3 max pooling stride 2. cifar: 3×3 stride 1, no pooling.
enum class ResNetStem { imagenet, cifar };

/// https://arxiv.org/abs/1512.03385 in torchvision's variant (stride in the 3×3 convolution), its names and
/// initialisation.
template <int Depth>
struct ResNetConfig {
  static constexpr std::string_view kind = Depth == 18    ? "resnet18"
                                           : Depth == 34  ? "resnet34"
                                           : Depth == 50  ? "resnet50"
                                           : Depth == 101 ? "resnet101"
                                                          : "resnet152";
  static constexpr int depth = Depth;
  ResNetStem stem = ResNetStem::imagenet;
  bool zero_init_residual = false;
  config::AutoOr<std::int64_t> num_classes;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&ResNetConfig<Depth>::stem>("`imagenet` for images of about 224 pixels, `cifar` for about 32."),
        field<&ResNetConfig<Depth>::zero_init_residual>(
            "Start each block as the identity: its last BatchNorm's weight is 0 (https://arxiv.org/abs/1706.02677)."),
        field<&ResNetConfig<Depth>::num_classes>("Outputs; `auto` takes the dataset's.", config::at_least(1)),
    };
  }

  static constexpr ModelTraits traits{.input = Input::images,
                                      .outputs = Outputs{Output::per_sample},
                                      .padding = Padding::none,
                                      .has_token_types = false,
                                      .has_kv_cache = false,
                                      .is_recurrent = false,
                                      .has_convolutions = true,
                                      .embedding = "",
                                      .tied_output = "",
                                      .classifier = "fc.weight",
                                      .transformers_type = "",
                                      .transformers_prefix = "",
                                      .has_transformers_names = false,
                                      .is_in_timm = true};
  SplitSizes split_sizes() const { return {}; }
  OwnSizes sizes() const { return only_classes(num_classes); }
  BrokenRules broken_rules(const Surroundings&) const { return {}; }
  /// For images of 28 pixels.
  static ResNetConfig starter() { return {.stem = ResNetStem::cifar}; }
};

/// WRN-depth-widen_factor of https://arxiv.org/abs/1605.07146 (pre-activation, for images of about 32 pixels).
struct WideResNetConfig {
  static constexpr std::string_view kind = "wide_resnet";
  std::int64_t depth = 28;
  std::int64_t widen_factor = 10;
  double dropout = 0;
  config::AutoOr<std::int64_t> num_classes;

  static constexpr auto fields() {
    using config::field;
    using C = WideResNetConfig;
    return config::Fields{
        field<&C::depth>("Convolutions on the longest path: 6 n + 4.", config::between(10, 10'000)),
        field<&C::widen_factor>("Multiplies the channels 16, 32, 64.", config::at_least(1)),
        field<&C::dropout>("Dropout between a block's convolutions.", config::below_one),
        field<&C::num_classes>("Outputs; `auto` takes the dataset's.", config::at_least(1)),
    };
  }

  static constexpr ModelTraits traits{.input = Input::images,
                                      .outputs = Outputs{Output::per_sample},
                                      .padding = Padding::none,
                                      .has_token_types = false,
                                      .has_kv_cache = false,
                                      .is_recurrent = false,
                                      .has_convolutions = true,
                                      .embedding = "",
                                      .tied_output = "",
                                      .classifier = "fc.weight",
                                      .transformers_type = "",
                                      .transformers_prefix = "",
                                      .has_transformers_names = false,
                                      .is_in_timm = false};
  SplitSizes split_sizes() const { return {}; }
  OwnSizes sizes() const { return only_classes(num_classes); }
  BrokenRules broken_rules(const Surroundings&) const {
    if (depth % 6 == 4) return {};
    const std::int64_t below = depth - (depth + 2) % 6;
    return {{{"model.depth", "model.kind"},
             "expected 6 n + 4, such as " + std::to_string(below) + " or " + std::to_string(below + 6) + ", got " +
                 std::to_string(depth)}};
  }
  static WideResNetConfig starter() { return {}; }
};

using OwnNetworkConfig =
    config::OneOf<MlpConfig, CnnConfig, ResNetConfig<18>, ResNetConfig<34>, ResNetConfig<50>, ResNetConfig<101>,
                  ResNetConfig<152>, WideResNetConfig, VitConfig, Gpt2Config, LlamaConfig, BertConfig, LstmConfig,
                  FastTextConfig, T5Config, LayersConfig, TorchScriptConfig>;
using NetworkConfig = config::WithKind<OwnNetworkConfig, PluggedNetworkConfig>::type;

/// A kind of network with its traits.
struct NetworkKind {
  std::string_view kind;
  const ModelTraits* traits;
};

/// Every kind but those of plug-ins, in the order of NetworkConfig.
inline constexpr auto kNetworkKinds = []<class... Networks>(std::type_identity<config::OneOf<Networks...>>) {
  static_assert((states_its_traits<Networks>() && ...));
  return std::array{NetworkKind{Networks::kind, &Networks::traits}...};
}(std::type_identity<OwnNetworkConfig>());

/// Returns what a network reads: as its kind says, or its layers.
inline Input input_of(const NetworkConfig& network) {
  return network.visit([&](const auto& config) {
    if constexpr (requires { config.takes_tokens(); }) return config.takes_tokens() ? Input::tokens : Input::numbers;
    return config::traits_of(network).input.value;
  });
}

/// Returns the file that the network itself is read from; null: it is built here.
inline const std::string* file_of(const NetworkConfig& network) {
  return network.visit([](const auto& config) -> const std::string* {
    if constexpr (requires { config.path; }) return &config.path;
    return nullptr;
  });
}

inline OwnSizes sizes_of(const NetworkConfig& network) {
  return network.visit([](const auto& config) { return config.sizes(); });
}

/// Returns the key that ranks which share sequences can't obey; null: the network has none.
inline const char* key_against_shared_sequences(const NetworkConfig& network) {
  return network.visit([](const auto& config) -> const char* {
    if constexpr (requires { config.key_against_shared_sequences(); }) return config.key_against_shared_sequences();
    return nullptr;
  });
}

/// The kinds whose traits satisfy `condition`, for messages.
template <class Condition>
std::vector<std::string> kinds_where(Condition condition) {
  std::vector<std::string> kinds;
  for (const NetworkKind& network : kNetworkKinds)
    if (condition(*network.traits)) kinds.emplace_back(network.kind);
  return kinds;
}

enum class MemoryFormat { auto_, contiguous, channels_last };

/// auto_: Winograd's where it is the faster one. direct: LibTorch's operators alone.
enum class ConvolutionAlgorithm { auto_, direct };

/// What may differ between the model and the weights it starts from. new_head: its output head, which keeps its first
/// values where the file has none or another shape. strict: nothing. partial: anything, as long as something fits.
enum class InitPolicy { new_head, strict, partial };

/// Where some layers of a model are.
struct LayerPlaceConfig {
  std::string layers;
  std::int64_t device = 0;

  static constexpr auto fields() {
    using config::field;
    using C = LayerPlaceConfig;
    return config::Fields{
        field<&C::layers>("Pattern of their names, or of the ends of their names: `transformer.h.[0-3]` are blocks of "
                          "gpt2, and `mlp` the feed-forward part of each. `*` crosses dots.",
                          config::non_empty & config::required),
        field<&C::device>("Number of the GPU, from 0.", config::at_least(0)),
    };
  }
};

struct ModelConfig {
  NetworkConfig network;
  MemoryFormat memory_format = MemoryFormat::auto_;
  ConvolutionAlgorithm convolution_algorithm = ConvolutionAlgorithm::auto_;
  std::optional<std::string> init_from;
  InitPolicy init_policy = InitPolicy::new_head;
  std::optional<MupConfig> mup{};
  std::optional<LoraConfig> lora{};
  std::vector<std::string> freeze{};
  std::vector<LayerPlaceConfig> placement{};

  static constexpr auto fields() {
    using config::choice;
    using config::field;
    return config::Fields{
        choice<&ModelConfig::network>("The network.", config::required_unless("init_from")),
        field<&ModelConfig::memory_format>("Layout of images and convolution weights in memory; `auto` takes the "
                                           "faster one for the network and device."),
        field<&ModelConfig::convolution_algorithm>(
            "On a CPU: `auto` computes convolutions of 3 x 3 pixels by Winograd's algorithm where that is faster, "
            "`direct` none. Only with float32 and channels_last."),
        field<&ModelConfig::init_from>(
            "Weights to start from: a directory in Hugging Face layout, a file of safetensors or torch.save (.pth, "
            ".pt, .bin), or a run or checkpoint directory. A config.json beside them gives the kind and the sizes "
            "that the file leaves out.",
            config::non_empty),
        field<&ModelConfig::init_policy>("What those weights may lack: `new_head` lets the output head start afresh, "
                                         "`strict` nothing, `partial` takes whatever fits."),
        field<&ModelConfig::mup>(
            "Scale first values and learning rates by the network's width (muP), so that a rate found "
            "for a small network fits the large one; null is the standard parametrization. "
            "`trainctl check --coordinates` tests it."),
        field<&ModelConfig::lora>("Train low-rank adapters beside frozen weights; null trains all weights."),
        field<&ModelConfig::freeze>(
            "Layers or parameters that aren't trained, by patterns of their names or of the ends of their names: "
            "`encoder`, `layer[1-3]`, `*.bias`. A pattern with `!` before it is trained after all; of several that "
            "fit, the last counts: `['*', '!head']` trains the head alone. Running statistics of BatchNorm go on."),
        field<&ModelConfig::placement>("Which layers are on which GPU of this node, in one process; of several entries "
                                       "that fit, the last. The other layers, and always the first block and the last, "
                                       "are on the first GPU."),
    };
  }
};

}  // namespace trainctl::model
