// Pairs of a source and a target text: the keys of `dataset: {kind: text_seq2seq}`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "dataset/facts.h"
#include "dataset/text_config.h"

namespace trainctl::dataset {

/// Rows of a source text and the target text that a model is to write for it.
struct TextPairs {
  static constexpr std::string_view short_form = "files";  // train: pairs.jsonl
  std::vector<std::string> files;
  TextFormat format = TextFormat::auto_;
  std::string source = "source";
  std::string target = "target";
  config::AutoOr<std::int64_t> header_lines;
  Quoting quoting = Quoting::auto_;
  std::int64_t max_line_bytes = 64 << 20;
  EncodingErrors encoding_errors = EncodingErrors::strict;

  std::vector<UnusedKey> unused_keys() const { return unused_table_keys(*this); }

  static constexpr auto fields() {
    using config::field;
    using C = TextPairs;
    return config::Fields{
        field<&C::files>("Files, in this order.", config::required & config::non_empty),
        field<&C::format>("`jsonl`, `csv`, `tsv` or `parquet`, as in text_lm; `auto` goes by the name's ending."),
        field<&C::source>("The member or column with the source text, by name or by number from 1. Dots lead to the "
                          "members of objects in jsonl: `translation.en`.",
                          config::non_empty),
        field<&C::target>("That of the target text.", config::non_empty),
        field<&C::header_lines>(text_help::header_lines, config::between(0, 1000)),
        field<&C::quoting>(text_help::quoting),
        field<&C::max_line_bytes>("A longer line (of csv: row) is an error.", config::at_least(1)),
        field<&C::encoding_errors>(text_help::encoding_errors),
    };
  }
};

/// A target text for each source text: translations, summaries, answers. Batches are padded to their longest source
/// and their longest target.
struct TextSeq2SeqConfig {
  static constexpr std::string_view kind = "text_seq2seq";
  TextPairs train;
  std::optional<TextPairs> eval;
  std::optional<TextPairs> test{};
  double eval_fraction = 0;
  double test_fraction = 0;
  std::int64_t split_seed = 0;
  std::string tokenizer;
  std::string prefix;
  std::int64_t max_source_length = 512;
  std::int64_t max_target_length = 128;
  config::AutoOr<std::int64_t> decoder_start_token_id;
  std::int64_t length_group_batches = 50;
  std::string cache_dir = ".cache/trainctl";

  /// Returns the token that the decoder begins with. `pad`: the tokenizer's.
  std::int64_t start_token(std::optional<std::int32_t> pad) const {
    return decoder_start_token_id.value.value_or(pad.value_or(0));
  }

  DatasetFacts facts() const {
    return {.samples = TokenFacts{.max_length = max_source_length,
                                  .tokenizer = tokenizer,
                                  .length_group_batches = length_group_batches,
                                  .is_stream = false},
            .targets = Targets::target_tokens,
            .num_classes = 0,
            .class_names = std::vector<std::string>(),
            .eval = EvalFacts{.has_own_set = eval.has_value(), .kept_share = eval_fraction},
            .unused_keys = unused_keys_of(train, eval, test),
            .test = {.has_own_set = test.has_value(), .kept_share = test_fraction},
            .can_fold = true};
  }
  static constexpr auto fields() {
    using config::field;
    using C = TextSeq2SeqConfig;
    return config::Fields{
        field<&C::train>("Pairs to train on.", config::required),
        field<&C::eval>("Pairs to evaluate on."),
        field<&C::test>(split_help::test),
        field<&C::eval_fraction>(
            "Without `eval`: about this share of the training pairs is kept for evaluation, chosen by a hash of each "
            "one's tokens.",
            config::below_one),
        field<&C::test_fraction>(split_help::test_fraction, config::below_one),
        field<&C::split_seed>("Another seed keeps other pairs for evaluation and test.", config::any_seed),
        field<&C::tokenizer>("As in text_lm, for both texts; it must have a token that ends a text, which is put "
                             "behind each of them.",
                             config::required & config::non_empty),
        field<&C::prefix>("Put before each source text, such as `translate English to German: `."),
        field<&C::max_source_length>("Longer sources are cut to this many tokens, the last one included.",
                                     config::between(2, 1 << 20)),
        field<&C::max_target_length>("Longer targets are cut to this many tokens, the last one included.",
                                     config::between(2, 1 << 20)),
        field<&C::decoder_start_token_id>("The token that the decoder begins with; `auto` is config.json's of "
                                          "model.init_from, else the tokenizer's padding or 0.",
                                          config::at_least(0)),
        field<&C::length_group_batches>("As in text_classification, by the tokens of source and target together.",
                                        config::between(0, 1 << 20)),
        field<&C::cache_dir>(text_help::cache_dir, config::non_empty),
    };
  }
};

}  // namespace trainctl::dataset
