// `model: {kind: bert}`. Part of model/config.h.
#pragma once

#include <cstdint>
#include <optional>

#include "config/field.h"

namespace trainctl::model {

enum class BertHead { auto_, masked_lm, classification, token_classification };
enum class BertPooling { first, mean };

/// https://arxiv.org/abs/1810.04805, in transformers' layout (BertForMaskedLM and its siblings).
struct BertConfig {
  static constexpr std::string_view kind = "bert";
  std::int64_t hidden_size = 768;
  std::int64_t num_layers = 12;
  std::int64_t num_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::int64_t max_position_embeddings = 512;
  config::AutoOr<std::int64_t> vocab_size;
  std::int64_t type_vocab_size = 2;
  std::optional<std::int64_t> pad_token_id = 0;
  double dropout = 0.1;
  double attention_dropout = 0.1;
  double layer_norm_epsilon = 1e-12;
  BertHead head = BertHead::auto_;
  BertPooling pooling = BertPooling::first;
  config::AutoOr<std::int64_t> num_classes;

  static constexpr auto fields() {
    using config::field;
    using C = BertConfig;
    return std::tuple{
        field<&C::hidden_size>("Width of the residual stream; a multiple of num_heads.", config::at_least(1)),
        field<&C::num_layers>("Transformer blocks.", config::between(1, 10'000)),
        field<&C::num_heads>("Attention heads.", config::at_least(1)),
        field<&C::intermediate_size>("Width inside each feed-forward layer.", config::at_least(1)),
        field<&C::max_position_embeddings>("Position embeddings: the longest sequence.", config::at_least(1)),
        field<&C::vocab_size>("Token embeddings; `auto` takes the dataset's.", config::at_least(1)),
        field<&C::type_vocab_size>("Token type embeddings: texts in a sequence.", config::at_least(1)),
        field<&C::pad_token_id>(
            "Token id of padding, whose embedding starts at zero and isn't trained as an input; null "
            "for none.",
            config::at_least(0)),
        field<&C::dropout>("Dropout after the embeddings, in each residual branch and before the classifier.",
                           config::below_one),
        field<&C::attention_dropout>("Dropout of attention weights.", config::below_one),
        field<&C::layer_norm_epsilon>("Epsilon of every LayerNorm.", config::positive),
        field<&C::head>("What comes out: masked tokens, a row for each sequence (num_classes 1: a number) or for each "
                        "token; `auto` is classification where there are classes, else masked_lm."),
        field<&C::pooling>("What classifies a sequence: its first token through the pooler, or the mean of its "
                           "tokens, as in sentence-transformers."),
        field<&C::num_classes>("Outputs of a classification; `auto` takes the dataset's (and 1 where it has none: "
                               "regression).",
                               config::at_least(1)),
    };
  }
};

}  // namespace trainctl::model
