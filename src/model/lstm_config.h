// `model: {kind: lstm}`. Part of model/config.h.
#pragma once

#include <cstdint>

#include "config/field.h"
#include "model/traits.h"

namespace trainctl::model {

enum class LstmHead { auto_, language_model, classification };

/// Language model in the layout of PyTorch's word_language_model example (https://arxiv.org/abs/1409.2329), or a
/// classifier of sequences.
struct LstmConfig {
  static constexpr std::string_view kind = "lstm";
  std::int64_t hidden_size = 512;
  std::int64_t num_layers = 2;
  config::AutoOr<std::int64_t> embedding_size;
  config::AutoOr<std::int64_t> vocab_size;
  bool bidirectional = false;
  bool tie_embeddings = false;
  double dropout = 0.2;
  LstmHead head = LstmHead::auto_;
  config::AutoOr<std::int64_t> num_classes;

  std::int64_t size_of_embedding() const { return embedding_size.value.value_or(hidden_size); }
  LstmHead resolved_head(bool has_classes) const {
    if (head != LstmHead::auto_) return head;
    return has_classes || !num_classes.is_auto() ? LstmHead::classification : LstmHead::language_model;
  }

  static constexpr auto fields() {
    using config::field;
    using C = LstmConfig;
    return config::Fields{
        field<&C::hidden_size>("Width of each layer, in each direction.", config::at_least(1)),
        field<&C::num_layers>("Layers.", config::between(1, 10'000)),
        field<&C::embedding_size>("Width of the token embeddings; `auto` is hidden_size.", config::at_least(1)),
        field<&C::vocab_size>("Token embeddings; `auto` takes the dataset's.", config::at_least(1)),
        field<&C::bidirectional>("Read each sequence backwards too; for classification only."),
        field<&C::tie_embeddings>("Use the token embeddings as the output layer too; needs embedding_size = "
                                  "hidden_size."),
        field<&C::dropout>("Dropout after the embeddings, between the layers and after the last.", config::below_one),
        field<&C::head>("What comes out: the next token, or a row for each sequence, from the last states; `auto` is "
                        "classification where there are classes, else language_model."),
        field<&C::num_classes>("Outputs of a classification; `auto` takes the dataset's (and 1 where it has none: "
                               "regression).",
                               config::at_least(1)),
    };
  }

  static constexpr ModelTraits traits{.input = Input::tokens,
                                      .outputs = Outputs{Output::per_sample, Output::next_tokens},
                                      .padding = Padding::in_classification,
                                      .has_token_types = false,
                                      .has_kv_cache = false,
                                      .is_recurrent = true,
                                      .has_convolutions = false,
                                      .embedding = "encoder.weight",
                                      .tied_output = "decoder.weight",
                                      .classifier = "classifier.weight",
                                      .transformers_type = "",
                                      .transformers_prefix = "",
                                      .has_transformers_names = false,
                                      .is_in_timm = false};
  SplitSizes split_sizes() const { return {}; }
  OwnSizes sizes() const {
    return {.num_classes = num_classes.value, .vocab_size = vocab_size.value, .max_position_embeddings = std::nullopt};
  }
  BrokenRules broken_rules(const Surroundings& around) const {
    BrokenRules broken;
    if (bidirectional && around.output == Output::next_tokens)
      broken.push_back({{"model.bidirectional", "model.kind", "task.kind"},
                        "a language model must not see the tokens that it predicts"});
    if (tie_embeddings && size_of_embedding() != hidden_size)
      broken.push_back({{"model.tie_embeddings", "model.embedding_size", "model.hidden_size", "model.kind"},
                        "needs an embedding_size of " + std::to_string(hidden_size) + ", the hidden_size"});
    const LstmHead wanted = around.output == Output::next_tokens ? LstmHead::language_model : LstmHead::classification;
    if (traits.outputs.value.contains(around.output) && resolved_head(around.has_classes) != wanted)
      broken.push_back(wrong_head(around, config::name_of(wanted), config::name_of(head)));
    return broken;
  }
  static LstmConfig starter() { return {}; }
};

}  // namespace trainctl::model
