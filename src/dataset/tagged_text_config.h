// Sentences of words with tags: the keys of `dataset: {kind: text_token_classification}`.
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

/// auto: by the name's ending (.jsonl, .ndjson; anything else is conll).
enum class TaggedFormat { auto_, conll, jsonl };
/// What is between a conll line's columns: any run of spaces and tabs, or exactly one tab or space.
enum class ColumnSeparator { whitespace, tab, space };

constexpr TaggedFormat format_of(std::string_view file, TaggedFormat format) {
  if (format != TaggedFormat::auto_) return format;
  return format_of(file, TextFormat::auto_) == TextFormat::jsonl ? TaggedFormat::jsonl : TaggedFormat::conll;
}

/// Sentences as lists of words, each with a tag.
struct TaggedText {
  static constexpr std::string_view short_form = "files";  // train: texts.csv
  std::vector<std::string> files;
  TaggedFormat format = TaggedFormat::auto_;
  std::optional<std::string> word;
  std::optional<std::string> tag;
  ColumnSeparator separator = ColumnSeparator::whitespace;
  std::int64_t header_lines = 0;
  std::string comment;
  std::int64_t max_line_bytes = 64 << 20;
  EncodingErrors encoding_errors = EncodingErrors::strict;

  std::vector<UnusedKey> unused_keys() const {
    std::vector<UnusedKey> unused;
    if (has_format(*this, TaggedFormat::conll)) return unused;
    if (separator != ColumnSeparator::whitespace) unused.push_back({"separator", "", "conll"});
    if (header_lines != 0) unused.push_back({"header_lines", "", "conll"});
    if (!comment.empty()) unused.push_back({"comment", "", "conll"});
    return unused;
  }

  static constexpr auto fields() {
    using config::field;
    using C = TaggedText;
    return config::Fields{
        field<&C::files>("Files, in this order.", config::required & config::non_empty),
        field<&C::format>(
            "`conll`: a word a line with its columns, an empty line after each sentence, -DOCSTART- lines "
            "left out (CoNLL-2003); `jsonl`: an object a line with a list of words and one of tags; `auto` "
            "goes by the name's ending."),
        field<&C::word>("Column of the words, by name or by number from 1 (-1 is the last), or member with their list; "
                        "null is 1, or `tokens` of jsonl.",
                        config::non_empty),
        field<&C::tag>("The same for the tags; null is -1, or `tags` of jsonl.", config::non_empty),
        field<&C::separator>("Of conll: what is between columns: `whitespace` is any run of spaces and tabs."),
        field<&C::header_lines>("Of conll: lines before the data, of which the first names the columns; a line "
                                "`# global.columns = …` names them too.",
                                config::between(0, 1000)),
        field<&C::comment>("Of conll: lines that begin with this are left out; empty leaves none out."),
        field<&C::max_line_bytes>("A longer line is an error.", config::at_least(1)),
        field<&C::encoding_errors>(text_help::encoding_errors),
    };
  }
};

/// A tag for each word of a sentence: named entities, parts of speech. Batches are padded to their longest sentence.
struct TextTokenClassificationConfig {
  static constexpr std::string_view kind = "text_token_classification";
  TaggedText train;
  std::optional<TaggedText> eval;
  std::optional<TaggedText> test{};
  std::string tokenizer;
  std::int64_t max_length = 128;
  bool label_all_tokens = false;
  std::vector<std::string> class_names;
  std::int64_t length_group_batches = 50;
  std::string cache_dir = ".cache/trainctl";

  DatasetFacts facts() const {
    return {.samples = TokenFacts{.max_length = max_length,
                                  .tokenizer = tokenizer,
                                  .length_group_batches = length_group_batches,
                                  .is_stream = false},
            .targets = Targets::token_labels,
            .num_classes = static_cast<std::int64_t>(class_names.size()),
            .class_names = class_names,
            .eval = EvalFacts{.has_own_set = eval.has_value()},
            .unused_keys = unused_keys_of(train, eval, test),
            .test = {.has_own_set = test.has_value()}};
  }
  static constexpr auto fields() {
    using config::field;
    using C = TextTokenClassificationConfig;
    return config::Fields{
        field<&C::train>("Sentences to train on.", config::required),
        field<&C::eval>("Sentences to evaluate on."),
        field<&C::test>(split_help::test),
        field<&C::tokenizer>("As in text_lm; words are joined by spaces.", config::required & config::non_empty),
        field<&C::max_length>("Longer sentences are cut to this many tokens, special ones included.",
                              config::between(2, 1 << 20)),
        field<&C::label_all_tokens>("Every token of a word carries the word's tag (after a B- tag the I- tag); false: "
                                    "its first token alone, and the model isn't asked for the others."),
        field<&C::class_names>(
            "The tags' names, in the order of their numbers; empty takes those of the training sentences, "
            "sorted. Tags that are numbers in jsonl count this list from 0."),
        field<&C::length_group_batches>("As in text_classification.", config::between(0, 1 << 20)),
        field<&C::cache_dir>(text_help::cache_dir, config::non_empty),
    };
  }
};

}  // namespace trainctl::dataset
