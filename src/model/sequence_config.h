// The `model:` kinds that take sequences of tokens. Part of model/config.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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
    return config::Fields{
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

}  // namespace trainctl::model
