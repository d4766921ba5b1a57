// The `model:` kinds that take sequences of tokens. Part of model/config.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/field.h"
#include "model/traits.h"

namespace trainctl::model {

/// Radford et al., 2019, in transformers' layout (GPT2LMHeadModel): token embeddings are also the output layer.
struct Gpt2Config {
  static constexpr std::string_view kind = "gpt2";
  std::int64_t hidden_size = 768;
  std::int64_t num_layers = 12;
  std::int64_t num_heads = 12;
  config::AutoOr<std::int64_t> intermediate_size;
  std::int64_t max_position_embeddings = 1024;
  config::AutoOr<std::int64_t> vocab_size;
  double dropout = 0.1;
  double attention_dropout = 0.1;
  double layer_norm_epsilon = 1e-5;

  std::int64_t inner_size() const { return intermediate_size.value.value_or(4 * hidden_size); }

  static constexpr auto fields() {
    using config::field;
    using C = Gpt2Config;
    return std::tuple{
        field<&C::hidden_size>("Width of the residual stream; a multiple of num_heads.", config::at_least(1)),
        field<&C::num_layers>("Transformer blocks.", config::between(1, 10'000)),
        field<&C::num_heads>("Attention heads.", config::at_least(1)),
        field<&C::intermediate_size>("Width inside each feed-forward layer; `auto` is 4 × hidden_size.",
                                     config::at_least(1)),
        field<&C::max_position_embeddings>("Position embeddings: the longest sequence.", config::at_least(1)),
        field<&C::vocab_size>("Token embeddings; `auto` takes the dataset's.", config::at_least(1)),
        field<&C::dropout>("Dropout after the embeddings and in each residual branch.", config::below_one),
        field<&C::attention_dropout>("Dropout of attention weights.", config::below_one),
        field<&C::layer_norm_epsilon>("Epsilon of every LayerNorm.", config::positive),
    };
  }

  static constexpr ModelTraits traits{.input = Input::tokens,
                                      .outputs = Outputs{Output::next_tokens},
                                      .padding = Padding::none,
                                      .has_token_types = false,
                                      .has_kv_cache = true,
                                      .is_recurrent = false,
                                      .has_convolutions = false,
                                      .embedding = "transformer.wte.weight",
                                      .tied_output = "lm_head.weight",
                                      .classifier = "",
                                      .transformers_type = "gpt2",
                                      .transformers_prefix = "transformer.",
                                      .has_transformers_names = true,
                                      .is_in_timm = false};
  SplitSizes split_sizes() const { return {{"model.num_heads", num_heads}, {"model.intermediate_size", inner_size()}}; }
  OwnSizes sizes() const {
    return {.num_classes = std::nullopt,
            .vocab_size = vocab_size.value,
            .max_position_embeddings = max_position_embeddings};
  }
  BrokenRules broken_rules(const Surroundings&) const { return uneven_heads(hidden_size, num_heads); }
  static Gpt2Config starter() {
    return {.hidden_size = 128,
            .num_layers = 4,
            .num_heads = 4,
            .intermediate_size = 512,
            .max_position_embeddings = kStarterLength};
  }
};

struct PlainRopeConfig {
  static constexpr std::string_view kind = "none";
  static constexpr auto fields() { return std::tuple{}; }
};

/// Position interpolation (https://arxiv.org/abs/2306.15595).
struct LinearRopeConfig {
  static constexpr std::string_view kind = "linear";
  double factor = 1;
  static constexpr auto fields() {
    return std::tuple{config::field<&LinearRopeConfig::factor>("Positions are divided by this.", config::positive)};
  }
};

/// NTK-aware scaling that grows with the sequence once it is longer than max_position_embeddings.
struct DynamicRopeConfig {
  static constexpr std::string_view kind = "dynamic";
  double factor = 1;
  static constexpr auto fields() {
    return std::tuple{config::field<&DynamicRopeConfig::factor>(
        "Factor of the base's growth, for sequences longer than max_position_embeddings.", config::at_least(1))};
  }
};

/// https://arxiv.org/abs/2309.00071
struct YarnRopeConfig {
  static constexpr std::string_view kind = "yarn";
  double factor = 1;
  std::int64_t original_max_position_embeddings = 2048;
  double beta_fast = 32;
  double beta_slow = 1;
  std::optional<double> attention_factor;
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;
  bool truncate = true;

  static constexpr auto fields() {
    using config::field;
    using C = YarnRopeConfig;
    return std::tuple{
        field<&C::factor>("How many times longer sequences become.", config::positive),
        field<&C::original_max_position_embeddings>("Longest sequence of the pretraining.", config::at_least(1)),
        field<&C::beta_fast>("Rotations above which a frequency is left alone.", config::positive),
        field<&C::beta_slow>("Rotations below which a frequency is interpolated in full.", config::positive),
        field<&C::attention_factor>("Scales cosines and sines; null takes the paper's 0.1 ln(factor) + 1.",
                                    config::positive),
        field<&C::mscale>("Multiplies the logarithm there, in the numerator; with mscale_all_dim only.",
                          config::positive),
        field<&C::mscale_all_dim>("The same in a denominator.", config::positive),
        field<&C::truncate>("Round the range of interpolated frequencies to whole dimensions."),
    };
  }
};

/// https://arxiv.org/abs/2402.13753
struct LongRopeConfig {
  static constexpr std::string_view kind = "longrope";
  std::vector<double> short_factor;
  std::vector<double> long_factor;
  std::int64_t original_max_position_embeddings = 4096;
  std::optional<double> factor;
  std::optional<double> attention_factor;

  static constexpr auto fields() {
    using config::field;
    using C = LongRopeConfig;
    return std::tuple{
        field<&C::short_factor>("Divides each frequency, for sequences up to original_max_position_embeddings.",
                                config::required & config::non_empty & config::positive),
        field<&C::long_factor>("The same for longer ones.", config::required & config::non_empty & config::positive),
        field<&C::original_max_position_embeddings>("Longest sequence of the pretraining.", config::at_least(2)),
        field<&C::factor>(
            "How many times longer sequences become; null: max_position_embeddings / original_max_position_embeddings.",
            config::positive),
        field<&C::attention_factor>("Scales cosines and sines; null follows from factor.", config::positive),
    };
  }
};

/// Llama 3.1 (https://arxiv.org/abs/2407.21783).
struct Llama3RopeConfig {
  static constexpr std::string_view kind = "llama3";
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_max_position_embeddings = 8192;

  static constexpr auto fields() {
    using config::field;
    using C = Llama3RopeConfig;
    return std::tuple{
        field<&C::factor>("Low frequencies are divided by this.", config::positive),
        field<&C::low_freq_factor>("Wavelengths above original_max_position_embeddings / this are low frequencies.",
                                   config::positive),
        field<&C::high_freq_factor>("Wavelengths below original_max_position_embeddings / this are left alone.",
                                    config::positive),
        field<&C::original_max_position_embeddings>("Longest sequence of the pretraining.", config::at_least(1)),
    };
  }
};

using RopeScalingConfig = config::OneOf<PlainRopeConfig, LinearRopeConfig, DynamicRopeConfig, YarnRopeConfig,
                                        LongRopeConfig, Llama3RopeConfig>;

/// Llama 1 to 3 (https://arxiv.org/abs/2302.13971) in transformers' layout (LlamaForCausalLM): RMSNorm, rotary
/// positions, SwiGLU, grouped-query attention.
struct LlamaConfig {
  static constexpr std::string_view kind = "llama";
  std::int64_t hidden_size = 2048;
  std::int64_t num_layers = 16;
  std::int64_t num_heads = 32;
  config::AutoOr<std::int64_t> num_key_value_heads;
  config::AutoOr<std::int64_t> head_size;
  config::AutoOr<std::int64_t> intermediate_size;
  std::int64_t max_position_embeddings = 2048;
  config::AutoOr<std::int64_t> vocab_size;
  double rope_theta = 10000;
  RopeScalingConfig rope_scaling;
  double rms_norm_epsilon = 1e-6;
  bool tie_embeddings = false;
  double attention_dropout = 0;

  std::int64_t key_value_heads() const { return num_key_value_heads.value.value_or(num_heads); }
  std::int64_t size_of_head() const { return head_size.value.value_or(hidden_size / num_heads); }
  /// 8/3 of the width, up to the next multiple of 64.
  std::int64_t inner_size() const { return intermediate_size.value.value_or((8 * hidden_size / 3 + 63) / 64 * 64); }

  static constexpr auto fields() {
    using config::field;
    using C = LlamaConfig;
    return std::tuple{
        field<&C::hidden_size>("Width of the residual stream.", config::at_least(1)),
        field<&C::num_layers>("Transformer blocks.", config::between(1, 10'000)),
        field<&C::num_heads>("Query heads.", config::at_least(1)),
        field<&C::num_key_value_heads>(
            "Key and value heads, a divisor of num_heads (grouped-query attention); `auto` is num_heads.",
            config::at_least(1)),
        field<&C::head_size>("Size of each head, even; `auto` is hidden_size / num_heads.", config::at_least(2)),
        field<&C::intermediate_size>(
            "Width inside each feed-forward layer; `auto` is 8/3 × hidden_size, up to a multiple of 64.",
            config::at_least(1)),
        field<&C::max_position_embeddings>("The longest sequence.", config::at_least(1)),
        field<&C::vocab_size>("Token embeddings; `auto` takes the dataset's.", config::at_least(1)),
        field<&C::rope_theta>("Base wavelength of the rotary positions.", config::positive),
        field<&C::rope_scaling>("How rotary positions reach beyond the pretraining's length."),
        field<&C::rms_norm_epsilon>("Epsilon of every RMSNorm.", config::positive),
        field<&C::tie_embeddings>("Use the token embeddings as the output layer too."),
        field<&C::attention_dropout>("Dropout of attention weights.", config::below_one),
    };
  }

  static constexpr ModelTraits traits{.input = Input::tokens,
                                      .outputs = Outputs{Output::next_tokens},
                                      .padding = Padding::none,
                                      .has_token_types = false,
                                      .has_kv_cache = true,
                                      .is_recurrent = false,
                                      .has_convolutions = false,
                                      .embedding = "model.embed_tokens.weight",
                                      .tied_output = "lm_head.weight",
                                      .classifier = "",
                                      .transformers_type = "llama",
                                      .transformers_prefix = "model.",
                                      .has_transformers_names = true,
                                      .is_in_timm = false};
  SplitSizes split_sizes() const {
    return {{"model.num_key_value_heads", key_value_heads()},
            {"model.num_heads", num_heads},
            {"model.intermediate_size", inner_size()}};
  }
  OwnSizes sizes() const {
    return {.num_classes = std::nullopt,
            .vocab_size = vocab_size.value,
            .max_position_embeddings = max_position_embeddings};
  }
  /// Heads may have a size of their own.
  BrokenRules broken_rules(const Surroundings&) const {
    return head_size.is_auto() ? uneven_heads(hidden_size, num_heads) : BrokenRules{};
  }
  static LlamaConfig starter() {
    return {.hidden_size = 128,
            .num_layers = 4,
            .num_heads = 4,
            .intermediate_size = 512,
            .max_position_embeddings = kStarterLength};
  }
};

}  // namespace trainctl::model
