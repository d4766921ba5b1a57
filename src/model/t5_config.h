// `model: {kind: t5}`. Part of model/config.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/field.h"
#include "model/traits.h"

namespace trainctl::model {

/// The feed-forward layers of T5 (ReLU) and of T5 1.1 and FLAN-T5 (GeGLU with GELU's approximation by tanh).
enum class T5FeedForward { relu, gated_gelu };

/// T5 (https://arxiv.org/abs/1910.10683), an encoder and a decoder with attention to it, in transformers' layout
/// (T5ForConditionalGeneration).
struct T5Config {
  static constexpr std::string_view kind = "t5";
  std::int64_t hidden_size = 512;
  std::int64_t num_layers = 6;
  config::AutoOr<std::int64_t> num_decoder_layers;
  std::int64_t num_heads = 8;
  config::AutoOr<std::int64_t> head_size;
  std::int64_t intermediate_size = 2048;
  T5FeedForward feed_forward_proj = T5FeedForward::relu;
  std::int64_t relative_attention_num_buckets = 32;
  std::int64_t relative_attention_max_distance = 128;
  config::AutoOr<std::int64_t> vocab_size;
  bool tie_embeddings = true;
  double dropout = 0.1;
  double layer_norm_epsilon = 1e-6;

  std::int64_t decoder_layers() const { return num_decoder_layers.value.value_or(num_layers); }
  std::int64_t size_of_head() const { return head_size.value.value_or(hidden_size / num_heads); }
  /// Returns the width of queries, keys and values.
  std::int64_t inner_size() const { return num_heads * size_of_head(); }

  static constexpr auto fields() {
    using config::field;
    using C = T5Config;
    return config::Fields{
        field<&C::hidden_size>("Width of the residual stream (transformers' d_model).", config::at_least(1)),
        field<&C::num_layers>("Transformer blocks of the encoder.", config::between(1, 10'000)),
        field<&C::num_decoder_layers>("Transformer blocks of the decoder; `auto` is num_layers.",
                                      config::between(1, 10'000)),
        field<&C::num_heads>("Attention heads.", config::at_least(1)),
        field<&C::head_size>("Size of each head (d_kv); `auto` is hidden_size / num_heads.", config::at_least(1)),
        field<&C::intermediate_size>("Width inside each feed-forward layer (d_ff).", config::at_least(1)),
        field<&C::feed_forward_proj>("Feed-forward layers: `relu` (T5), or `gated_gelu` (T5 1.1, FLAN-T5)."),
        field<&C::relative_attention_num_buckets>(
            "Distances between tokens that attention tells apart: half of them one by one, the others in ranges that "
            "grow; a multiple of 4.",
            config::at_least(4)),
        field<&C::relative_attention_max_distance>("All distances from this on are alike.", config::at_least(2)),
        field<&C::vocab_size>("Token embeddings; `auto` takes the dataset's.", config::at_least(1)),
        field<&C::tie_embeddings>("Use the token embeddings as the output layer too, on values that are scaled by "
                                  "1 / sqrt(hidden_size) (T5); false: a matrix of its own (T5 1.1, FLAN-T5)."),
        field<&C::dropout>(
            "Dropout of embeddings, attention weights, residual branches and inside feed-forward layers.",
            config::below_one),
        field<&C::layer_norm_epsilon>("Epsilon of every RMSNorm.", config::positive),
    };
  }

  static constexpr ModelTraits traits{.input = Input::tokens,
                                      .outputs = Outputs{Output::target_tokens},
                                      .padding = Padding::always,
                                      .has_token_types = false,
                                      .has_kv_cache = true,
                                      .is_recurrent = false,
                                      .has_convolutions = false,
                                      .embedding = "shared.weight",
                                      .tied_output = "lm_head.weight",
                                      .classifier = "",
                                      .transformers_type = "t5",
                                      .transformers_prefix = "",
                                      .has_transformers_names = true,
                                      .is_in_timm = false};
  SplitSizes split_sizes() const { return {}; }
  OwnSizes sizes() const {
    return {.num_classes = std::nullopt, .vocab_size = vocab_size.value, .max_position_embeddings = std::nullopt};
  }
  BrokenRules broken_rules(const Surroundings&) const {
    BrokenRules broken = head_size.is_auto() ? uneven_heads(hidden_size, num_heads) : BrokenRules{};
    if (relative_attention_num_buckets % 4 != 0)
      broken.push_back({{"model.relative_attention_num_buckets", "model.kind"},
                        "expected a multiple of 4: half of the encoder's buckets are for either direction, and half of "
                        "these for single distances; got " +
                            std::to_string(relative_attention_num_buckets)});
    if (relative_attention_max_distance <= relative_attention_num_buckets / 2)
      broken.push_back({{"model.relative_attention_max_distance", "model.kind"},
                        "expected more than half of model.relative_attention_num_buckets, " +
                            std::to_string(relative_attention_num_buckets / 2) + ", got " +
                            std::to_string(relative_attention_max_distance)});
    return broken;
  }
  static T5Config starter() { return {.hidden_size = 128, .num_layers = 2, .num_heads = 4, .intermediate_size = 512}; }
};

}  // namespace trainctl::model
