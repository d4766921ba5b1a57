// `model: {kind: bert}`. Part of model/config.h.
#pragma once

#include <cstdint>
#include <optional>

#include "config/field.h"
#include "model/traits.h"

namespace trainctl::model {

enum class BertHead { auto_, masked_lm, classification, token_classification };
enum class BertPooling { first, mean, max };
enum class BertPooler { auto_, none, tanh, gelu, relu };

/// https://arxiv.org/abs/1810.04805, in transformers' layout (BertForMaskedLM and its siblings). Keys beside BERT's own
/// make the network RoBERTa, DistilBERT, ELECTRA's discriminator, or one of sentence-transformers.
struct BertConfig {
  static constexpr std::string_view kind = "bert";
  std::int64_t hidden_size = 768;
  config::AutoOr<std::int64_t> embedding_size;
  std::int64_t num_layers = 12;
  std::int64_t num_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::int64_t max_position_embeddings = 512;
  std::int64_t position_offset = 0;
  config::AutoOr<std::int64_t> vocab_size;
  std::int64_t type_vocab_size = 2;
  std::optional<std::int64_t> pad_token_id = 0;
  double dropout = 0.1;
  double attention_dropout = 0.1;
  double layer_norm_epsilon = 1e-12;
  BertHead head = BertHead::auto_;
  BertPooling pooling = BertPooling::first;
  BertPooler pooler = BertPooler::auto_;
  bool normalize_pooled = false;
  bool dropout_before_pooler = false;
  config::AutoOr<double> classifier_dropout;
  config::AutoOr<std::int64_t> num_classes;

  std::int64_t size_of_embeddings() const { return embedding_size.value.value_or(hidden_size); }
  double dropout_of_classifier() const { return classifier_dropout.value.value_or(dropout); }
  BertPooler resolved_pooler() const {
    if (pooler != BertPooler::auto_) return pooler;
    return pooling == BertPooling::first ? BertPooler::tanh : BertPooler::none;
  }
  /// The first tokens' positions have the embeddings behind those that are left out.
  std::int64_t longest() const { return max_position_embeddings - position_offset; }

  static constexpr auto fields() {
    using config::field;
    using C = BertConfig;
    return config::Fields{
        field<&C::hidden_size>("Width of the residual stream; a multiple of num_heads.", config::at_least(1)),
        field<&C::embedding_size>("Width of the token embeddings, which a matrix projects to hidden_size if it "
                                  "differs, as in ELECTRA; `auto` "
                                  "is hidden_size.",
                                  config::at_least(1)),
        field<&C::num_layers>("Transformer blocks.", config::between(1, 10'000)),
        field<&C::num_heads>("Attention heads.", config::at_least(1)),
        field<&C::intermediate_size>("Width inside each feed-forward layer.", config::at_least(1)),
        field<&C::max_position_embeddings>(
            "Position embeddings: the longest sequence has as many tokens, less position_offset.", config::at_least(1)),
        field<&C::position_offset>("The position embedding of the first token: 0 in BERT, pad_token_id + 1 in RoBERTa.",
                                   config::at_least(0)),
        field<&C::vocab_size>("Token embeddings; `auto` takes the dataset's.", config::at_least(1)),
        field<&C::type_vocab_size>("Token type embeddings: texts in a sequence. With 1 (RoBERTa) all tokens have the "
                                   "same, with 0 (DistilBERT) "
                                   "none: separators alone tell two texts apart.",
                                   config::at_least(0)),
        field<&C::pad_token_id>(
            "Token id of padding, whose embedding starts at zero and isn't trained as an input; null "
            "for none.",
            config::at_least(0)),
        field<&C::dropout>("Dropout after the embeddings and in each residual branch.", config::below_one),
        field<&C::attention_dropout>("Dropout of attention weights.", config::below_one),
        field<&C::layer_norm_epsilon>("Epsilon of every LayerNorm.", config::positive),
        field<&C::head>("What comes out: masked tokens, a row for each sequence (num_classes 1: a number) or for each "
                        "token; `auto` is classification where there are classes, else masked_lm."),
        field<&C::pooling>(
            "What classifies a sequence: its first token, or the mean or the largest values of its tokens, "
            "as in sentence-transformers."),
        field<&C::pooler>("Activation of the matrix between pooling and classifier: tanh in BERT and RoBERTa, gelu in "
                          "ELECTRA, relu in DistilBERT; `none` leaves the matrix out; `auto` is tanh with pooling: "
                          "first, else none."),
        field<&C::normalize_pooled>("Scale pooled values to length 1, as in sentence-transformers' Normalize."),
        field<&C::dropout_before_pooler>("Dropout before the pooler's matrix, too, as in RoBERTa and ELECTRA."),
        field<&C::classifier_dropout>("Dropout before the classifier of sequences or tokens; `auto` is dropout.",
                                      config::below_one),
        field<&C::num_classes>("Outputs of a classification; `auto` takes the dataset's (and 1 where it has none: "
                               "regression).",
                               config::at_least(1)),
    };
  }

  static constexpr ModelTraits traits{.input = Input::tokens,
                                      .outputs = Outputs{Output::per_sample, Output::per_token, Output::masked_tokens},
                                      .padding = Padding::always,
                                      .has_token_types = true,
                                      .has_kv_cache = false,
                                      .is_recurrent = false,
                                      .has_convolutions = false,
                                      .embedding = "bert.embeddings.word_embeddings.weight",
                                      .tied_output = "cls.predictions.decoder.weight",
                                      .classifier = "classifier.weight",
                                      .transformers_type = "bert",
                                      .transformers_prefix = "bert.",
                                      .has_transformers_names = false,
                                      .is_in_timm = false};
  SplitSizes split_sizes() const {
    return {{"model.num_heads", num_heads}, {"model.intermediate_size", intermediate_size}};
  }
  OwnSizes sizes() const {
    return {.num_classes = num_classes.value, .vocab_size = vocab_size.value, .max_position_embeddings = longest()};
  }
  /// `auto` is classification where there are classes: it knows the number of classes, not the task.
  BertHead resolved_head(bool has_classes) const {
    if (head != BertHead::auto_) return head;
    return has_classes || !num_classes.is_auto() ? BertHead::classification : BertHead::masked_lm;
  }
  static std::optional<BertHead> head_for(Output output) {
    switch (output) {
      case Output::per_sample:
        return BertHead::classification;
      case Output::per_token:
        return BertHead::token_classification;
      case Output::masked_tokens:
        return BertHead::masked_lm;
      case Output::next_tokens:
      case Output::target_tokens:
      case Output::per_pixel:
        break;
    }
    return std::nullopt;
  }
  BrokenRules broken_rules(const Surroundings& around) const {
    BrokenRules broken = uneven_heads(hidden_size, num_heads);
    if (longest() < 1)
      broken.push_back({{"model.position_offset", "model.max_position_embeddings", "model.kind"},
                        "expected less than model.max_position_embeddings, " + std::to_string(max_position_embeddings) +
                            ", got " + std::to_string(position_offset)});
    if (dropout_before_pooler && resolved_pooler() == BertPooler::none)
      broken.push_back({{"model.dropout_before_pooler", "model.pooler", "model.kind"},
                        "there is no pooler; expected false, or a model.pooler with an activation"});
    const std::optional<BertHead> wanted = head_for(around.output);
    if (wanted && resolved_head(around.has_classes) != *wanted)
      broken.push_back(wrong_head(around, config::name_of(*wanted), config::name_of(head)));
    return broken;
  }
  static BertConfig starter() {
    return {.hidden_size = 128,
            .num_layers = 4,
            .num_heads = 4,
            .intermediate_size = 512,
            .max_position_embeddings = kStarterLength};
  }
};

}  // namespace trainctl::model
