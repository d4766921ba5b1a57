// The `dataset:` kinds that are made of text. Part of dataset/config.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/field.h"
#include "dataset/facts.h"

namespace trainctl::dataset {

/// auto: by the name's ending (.jsonl, .ndjson, .csv, .tsv, .tab, .parquet, .pq; anything else is plain text).
enum class TextFormat { auto_, text, jsonl, csv, tsv, parquet };
/// What one document of a plain text file is.
enum class DocumentUnit { file, paragraph, line };
enum class EncodingErrors { strict, replace };
/// Whether cells may be quoted. auto: csv as in RFC 4180, tsv not at all.
enum class Quoting { auto_, rfc4180, none };

/// Whether a file's name ends so, in upper or lower case. `ending` is in lower case.
constexpr bool ends_in_any_case(std::string_view file, std::string_view ending) {
  if (file.size() < ending.size()) return false;
  const std::string_view last = file.substr(file.size() - ending.size());
  return std::equal(last.begin(), last.end(), ending.begin(), [](char theirs, char lower) {
    return theirs == lower || (theirs >= 'A' && theirs <= 'Z' && theirs - 'A' + 'a' == lower);
  });
}

/// What a file is read as.
constexpr TextFormat format_of(std::string_view file, TextFormat format) {
  if (format != TextFormat::auto_) return format;
  if (ends_in_any_case(file, ".jsonl") || ends_in_any_case(file, ".ndjson")) return TextFormat::jsonl;
  if (ends_in_any_case(file, ".csv")) return TextFormat::csv;
  if (ends_in_any_case(file, ".parquet") || ends_in_any_case(file, ".pq")) return TextFormat::parquet;
  return ends_in_any_case(file, ".tsv") || ends_in_any_case(file, ".tab") ? TextFormat::tsv : TextFormat::text;
}

/// Help that several kinds share.
namespace text_help {
inline constexpr std::string_view header_lines =
    "Of csv, tsv: lines before the data, of which the first names the columns; `auto` looks at the first rows.";
inline constexpr std::string_view quoting =
    "Of csv, tsv: `rfc4180`: cells in quotes may hold separators and line ends; `none`: a quote is a "
    "character; `auto` is rfc4180 for csv and none for tsv.";
inline constexpr std::string_view encoding_errors = "What bytes that are not UTF-8 are: an error, or U+FFFD.";
inline constexpr std::string_view cache_dir = "Where tokenised text is kept for the next run.";
}  // namespace text_help

/// Whether a file of these is read as one of the formats.
template <class Files, class... Formats>
bool has_format(const Files& files, Formats... formats) {
  return std::any_of(files.files.begin(), files.files.end(), [&](const std::string& file) {
    const auto format = format_of(file, files.format);
    return ((format == formats) || ...);
  });
}

/// Returns the keys of csv and tsv that are set although no file is one.
template <class Files>
std::vector<UnusedKey> unused_table_keys(const Files& files) {
  std::vector<UnusedKey> unused;
  if (has_format(files, TextFormat::csv, TextFormat::tsv)) return unused;
  if (files.quoting != Quoting::auto_) unused.push_back({"quoting", "", "csv and tsv"});
  if (!files.header_lines.is_auto()) unused.push_back({"header_lines", "", "csv and tsv"});
  return unused;
}

/// Returns the unused keys of all sets.
template <class Files>
std::vector<UnusedKey> unused_keys_of(const Files& train, const std::optional<Files>& eval, const auto& test) {
  std::vector<UnusedKey> unused;
  const auto add = [&](const Files& files, const char* section) {
    for (const UnusedKey& one : files.unused_keys()) unused.push_back({one.key, section, one.used_by});
  };
  add(train, "train");
  if (eval) add(*eval, "eval");
  if (test) add(*test, "test");
  return unused;
}

/// Text files, one after another, as documents.
struct TextFiles {
  static constexpr std::string_view short_form = "files";  // train: texts.csv
  std::vector<std::string> files;
  TextFormat format = TextFormat::auto_;
  DocumentUnit document = DocumentUnit::file;
  std::string text = "text";
  config::AutoOr<std::int64_t> header_lines;
  Quoting quoting = Quoting::auto_;
  config::AutoOr<std::int64_t> max_line_bytes;
  EncodingErrors encoding_errors = EncodingErrors::strict;

  std::vector<UnusedKey> unused_keys() const {
    std::vector<UnusedKey> unused = unused_table_keys(*this);
    if (document != DocumentUnit::file && !has_format(*this, TextFormat::text))
      unused.push_back({"document", "", "plain text"});
    return unused;
  }

  static constexpr auto fields() {
    using config::field;
    using C = TextFiles;
    return config::Fields{
        field<&C::files>("Files, in this order.", config::required & config::non_empty),
        field<&C::format>("`text`; `jsonl`: an object a line; `csv`: cells between commas; `tsv`: between tabs; "
                          "`parquet`; "
                          "`auto` goes by the name's ending."),
        field<&C::document>("Of plain text: what one document is (paragraphs end at an empty line)."),
        field<&C::text>("Of jsonl, csv, tsv: the member or column with the text, by name or by number from 1.",
                        config::non_empty),
        field<&C::header_lines>(text_help::header_lines, config::between(0, 1000)),
        field<&C::quoting>(text_help::quoting),
        field<&C::max_line_bytes>(
            "A longer line (of csv: row) is an error; `auto` is 64 MiB, or no limit for plain text "
            "whose documents are whole files.",
            config::at_least(1)),
        field<&C::encoding_errors>(text_help::encoding_errors),
    };
  }
};

/// Next-token prediction on text that is cut into sequences of one length, documents packed without padding.
struct TextLmConfig {
  static constexpr std::string_view kind = "text_lm";
  TextFiles train;
  std::optional<TextFiles> eval;
  std::optional<TextFiles> test{};
  double eval_fraction = 0;
  double test_fraction = 0;
  std::string tokenizer;
  std::int64_t seq_len = 1024;
  bool document_mask = false;
  std::string cache_dir = ".cache/trainctl";

  DatasetFacts facts() const {
    return {.samples =
                TokenFacts{.max_length = seq_len, .tokenizer = tokenizer, .length_group_batches = 0, .is_stream = true},
            .targets = Targets::next_tokens,
            .num_classes = 0,
            .class_names = std::vector<std::string>(),
            .eval = EvalFacts{.has_own_set = eval.has_value(), .kept_share = eval_fraction},
            .unused_keys = unused_keys_of(train, eval, test),
            .test = {.has_own_set = test.has_value(), .kept_share = test_fraction}};
  }
  static constexpr auto fields() {
    using config::field;
    using C = TextLmConfig;
    return config::Fields{
        field<&C::train>("Text to train on.", config::required),
        field<&C::eval>("Text to evaluate on."),
        field<&C::test>(split_help::test),
        field<&C::eval_fraction>("Without `eval`: this share of the training text, its end, is kept for evaluation.",
                                 config::below_one),
        field<&C::test_fraction>(split_help::test_fraction, config::below_one),
        field<&C::tokenizer>("A tokenizer.json, vocab.txt, vocabulary with merges, SentencePiece model, or a directory "
                             "with one of them; `bytes`: every byte is a token.",
                             config::required & config::non_empty),
        field<&C::seq_len>("Tokens in a sequence.", config::at_least(1)),
        field<&C::document_mask>(
            "Tokens attend only to their own document, positions count from its start, and no token is asked for the "
            "next document's first one; false lets attention cross the documents of a sequence."),
        field<&C::cache_dir>(text_help::cache_dir, config::non_empty),
    };
  }
};

/// Masked language modelling (https://arxiv.org/abs/1810.04805): of the chosen tokens 80 % are masked, 10 % replaced,
/// 10 % kept; new choices each epoch.
struct TextMlmConfig {
  static constexpr std::string_view kind = "text_mlm";
  TextFiles train;
  std::optional<TextFiles> eval;
  std::optional<TextFiles> test{};
  double eval_fraction = 0;
  double test_fraction = 0;
  std::string tokenizer;
  std::int64_t seq_len = 512;
  double mask_probability = 0.15;
  bool whole_words = true;
  std::string cache_dir = ".cache/trainctl";

  DatasetFacts facts() const {
    return {
        .samples =
            TokenFacts{.max_length = seq_len, .tokenizer = tokenizer, .length_group_batches = 0, .is_stream = false},
        .targets = Targets::masked_tokens,
        .num_classes = 0,
        .class_names = std::vector<std::string>(),
        .eval = EvalFacts{.has_own_set = eval.has_value(), .kept_share = eval_fraction},
        .unused_keys = unused_keys_of(train, eval, test),
        .test = {.has_own_set = test.has_value(), .kept_share = test_fraction}};
  }
  static constexpr auto fields() {
    using config::field;
    using C = TextMlmConfig;
    return config::Fields{
        field<&C::train>("Text to train on.", config::required),
        field<&C::eval>("Text to evaluate on; its masks never change."),
        field<&C::test>(split_help::test),
        field<&C::eval_fraction>("Without `eval`: this share of the training text, its end, is kept for evaluation.",
                                 config::below_one),
        field<&C::test_fraction>(split_help::test_fraction, config::below_one),
        field<&C::tokenizer>("As in text_lm; it must have a mask token.", config::required & config::non_empty),
        field<&C::seq_len>("Tokens in a sequence, the begin and end token ([CLS], [SEP]) included.",
                           config::at_least(4)),
        field<&C::mask_probability>("Share of the tokens that the model is asked for.",
                                    config::fraction & config::positive),
        field<&C::whole_words>("Choose words, not tokens: all pieces of one together."),
        field<&C::cache_dir>(text_help::cache_dir, config::non_empty),
    };
  }
};

/// Rows of a text (or two) and a label.
struct LabelledText {
  static constexpr std::string_view short_form = "files";  // train: texts.csv
  std::vector<std::string> files;
  TextFormat format = TextFormat::auto_;
  std::string text = "text";
  std::optional<std::string> text_pair;
  std::string label = "label";
  config::AutoOr<std::int64_t> header_lines;
  Quoting quoting = Quoting::auto_;
  std::int64_t max_line_bytes = 64 << 20;
  EncodingErrors encoding_errors = EncodingErrors::strict;

  std::vector<UnusedKey> unused_keys() const { return unused_table_keys(*this); }

  static constexpr auto fields() {
    using config::field;
    using C = LabelledText;
    return config::Fields{
        field<&C::files>("Files, in this order.", config::required & config::non_empty),
        field<&C::format>("`jsonl`, `csv` or `tsv`, as in text_lm; `auto` goes by the name's ending."),
        field<&C::text>("The member or column with the text, by name or by number from 1.", config::non_empty),
        field<&C::text_pair>("That of a second text, for tasks on pairs.", config::non_empty),
        field<&C::label>("That of the label.", config::non_empty),
        field<&C::header_lines>(text_help::header_lines, config::between(0, 1000)),
        field<&C::quoting>(text_help::quoting),
        field<&C::max_line_bytes>("A longer line (of csv: row) is an error.", config::at_least(1)),
        field<&C::encoding_errors>(text_help::encoding_errors),
    };
  }
};

enum class LabelType { class_, value };

/// What becomes of labels that are values before a network learns them.
enum class LabelScaling { none, standard };

namespace text_help {
inline constexpr std::string_view label_scaling =
    "Of `label_type: value`. `standard`: the network learns each label less the mean of the training labels over their "
    "standard deviation. Predictions, metrics but the loss, and exported graphs are in the labels' own units.";
}

/// Returns the rule that classes aren't scaled, if it is broken.
inline std::vector<config::BrokenRule> broken_label_rules(LabelType type, LabelScaling scaling) {
  if (type == LabelType::value || scaling == LabelScaling::none) return {};
  return {{{"label_scaling", "label_type"}, "classes are not scaled; label_type: value takes numbers"}};
}

/// One label for each text, or pair of texts. Batches are padded to their longest text.
struct TextClassificationConfig {
  static constexpr std::string_view kind = "text_classification";
  LabelledText train;
  std::optional<LabelledText> eval;
  std::optional<LabelledText> test{};
  double eval_fraction = 0;
  double test_fraction = 0;
  std::int64_t split_seed = 0;
  std::string tokenizer;
  std::int64_t max_length = 128;
  LabelType label_type = LabelType::class_;
  LabelScaling label_scaling = LabelScaling::none;
  std::vector<std::string> class_names;
  std::int64_t length_group_batches = 50;
  std::string cache_dir = ".cache/trainctl";

  DatasetFacts facts() const {
    return {.samples = TokenFacts{.max_length = max_length,
                                  .tokenizer = tokenizer,
                                  .length_group_batches = length_group_batches,
                                  .is_stream = false},
            .targets = label_type == LabelType::value ? Targets::values : Targets::labels,
            .num_classes = static_cast<std::int64_t>(class_names.size()),
            .class_names = class_names,
            .eval = EvalFacts{.has_own_set = eval.has_value(), .kept_share = eval_fraction},
            .unused_keys = unused_keys_of(train, eval, test),
            .test = {.has_own_set = test.has_value(), .kept_share = test_fraction},
            .can_fold = true,
            .broken_rules = broken_label_rules(label_type, label_scaling)};
  }
  static constexpr auto fields() {
    using config::field;
    using C = TextClassificationConfig;
    return config::Fields{
        field<&C::train>("Texts to train on.", config::required),
        field<&C::eval>("Texts to evaluate on."),
        field<&C::test>(split_help::test),
        field<&C::eval_fraction>(
            "Without `eval`: about this share of the training texts is kept for evaluation, chosen "
            "by a hash of each one's tokens.",
            config::below_one),
        field<&C::test_fraction>(split_help::test_fraction, config::below_one),
        field<&C::split_seed>("Another seed keeps other texts for evaluation and test.", config::any_seed),
        field<&C::tokenizer>("As in text_lm.", config::required & config::non_empty),
        field<&C::max_length>("Longer texts are cut to this many tokens, special ones included.",
                              config::between(2, 1 << 20)),
        field<&C::label_type>("`class`: labels are names; `value`: they are numbers, for regression."),
        field<&C::label_scaling>(text_help::label_scaling),
        field<&C::class_names>(
            "The classes' names, in the order of their numbers; empty takes those of the training texts, "
            "sorted."),
        field<&C::length_group_batches>(
            "Texts of similar length share a batch: the order's texts are sorted by length within "
            "runs of this many batches; 0 leaves the order alone.",
            config::between(0, 1 << 20)),
        field<&C::cache_dir>(text_help::cache_dir, config::non_empty),
    };
  }
};

}  // namespace trainctl::dataset
