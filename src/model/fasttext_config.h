// `model: {kind: fasttext}`. Part of model/config.h.
#pragma once

#include <cstdint>

#include "config/field.h"
#include "model/traits.h"

namespace trainctl::model {

/// Classifier of short sequences of tokens in any order (fastText, https://arxiv.org/abs/1607.01759).
struct FastTextConfig {
  static constexpr std::string_view kind = "fasttext";
  std::int64_t embedding_size = 64;
  std::int64_t min_ngram = 1;
  std::int64_t max_ngram = 2;
  std::int64_t num_buckets = 262'144;
  config::AutoOr<std::int64_t> num_classes;

  static constexpr auto fields() {
    using config::field;
    using C = FastTextConfig;
    return config::Fields{
        field<&C::embedding_size>("Width of the embeddings; fastText's `dim`.", config::at_least(1)),
        field<&C::min_ngram>("Tokens of the shortest n-grams.", config::between(1, 16)),
        field<&C::max_ngram>(
            "Tokens of the longest n-grams. With a tokenizer of bytes, 3 to 6 bytes are like fastText's "
            "`minn` and `maxn`; with one of words, 1 and 2 are like its `wordNgrams`.",
            config::between(1, 16)),
        field<&C::num_buckets>("Embeddings, which n-grams share by their hash; fastText's `bucket`.",
                               config::between(1, 1'000'000'000)),
        field<&C::num_classes>("Outputs; `auto` takes the dataset's (and 1 where it has none: regression).",
                               config::at_least(1)),
    };
  }

  static constexpr ModelTraits traits{.input = Input::tokens,
                                      .outputs = Outputs{Output::per_sample},
                                      .padding = Padding::always,
                                      .has_token_types = false,
                                      .has_kv_cache = false,
                                      .is_recurrent = false,
                                      .has_convolutions = false,
                                      .embedding = "ngrams.embedding.weight",
                                      .tied_output = "",
                                      .classifier = "classifier.weight",
                                      .transformers_type = "",
                                      .transformers_prefix = "",
                                      .has_transformers_names = false,
                                      .is_in_timm = false};
  SplitSizes split_sizes() const { return {}; }
  OwnSizes sizes() const { return only_classes(num_classes); }
  BrokenRules broken_rules(const Surroundings& /*around*/) const {
    if (min_ngram <= max_ngram) return {};
    return {{{"model.min_ngram", "model.max_ngram", "model.kind"},
             "expected at most model.max_ngram, " + std::to_string(max_ngram) + ", got " + std::to_string(min_ngram)}};
  }
  static FastTextConfig starter() { return {}; }
};

}  // namespace trainctl::model
