// The `dataset:` kinds whose samples lie in containers: tar shards, token files, tables. Part of dataset/config.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/field.h"
#include "dataset/text_config.h"

namespace trainctl::dataset {

/// Images in tar shards (https://github.com/webdataset/webdataset), read where they lie.
struct WebDatasetConfig {
  static constexpr std::string_view kind = "webdataset";
  std::vector<std::string> train;
  std::vector<std::string> eval;
  double eval_fraction = 0;
  std::int64_t split_seed = 0;
  std::vector<std::string> image = {"jpg", "jpeg", "png", "webp"};
  std::string label = "cls";
  std::string label_member = "label";
  std::vector<std::string> class_names;
  config::AutoOr<std::int64_t> num_classes;
  config::AutoOr<std::int64_t> shuffle_buffer;
  std::int64_t shuffle_shards = 16;
  std::string cache_dir = ".cache/trainctl";

  DatasetFacts facts() const {
    return {.samples = ImageFacts{.num_channels = 3, .are_files = true, .size = std::nullopt},
            .targets = Targets::labels,
            .num_classes = num_classes.value.value_or(static_cast<std::int64_t>(class_names.size())),
            .class_names = class_names,
            .eval = EvalFacts{.has_own_set = !eval.empty(), .kept_share = eval_fraction},
            .indexed_files = {{train, ".tar"}, {eval, ".tar"}}};
  }
  static constexpr auto fields() {
    using config::field;
    using C = WebDatasetConfig;
    return config::Fields{
        field<&C::train>("Shards to train on: files, globs, directories, or braces as in `train-{000..099}.tar`.",
                         config::required & config::non_empty),
        field<&C::eval>("Shards to evaluate on; empty: see `eval_fraction`."),
        field<&C::eval_fraction>("Without `eval`: this share of the training samples, chosen by a hash of each one's "
                                 "name, is kept for evaluation; more data moves none of them.",
                                 config::below_one),
        field<&C::split_seed>("Another seed keeps other samples for evaluation.", config::any_seed),
        field<&C::image>("Endings of the members that are images; of several in a sample the first counts.",
                         config::non_empty),
        field<&C::label>("Ending of the member that is the label: a number or a name; one that ends in `json` is an "
                         "object with `label_member`.",
                         config::non_empty),
        field<&C::label_member>("Where the label is in JSON: the member that says it.", config::non_empty),
        field<&C::class_names>("The classes' names, in the order of their numbers; empty takes those of the training "
                               "samples, sorted."),
        field<&C::num_classes>("Label numbers must be below this; `auto` takes the largest training label plus one.",
                               config::at_least(1)),
        field<&C::shuffle_buffer>(
            "Samples that are shuffled together, while each shard is read from front to back; 0 shuffles "
            "all of them, reading at random; `auto` is 0 up to 4 GiB of shards, else 16384.",
            config::at_least(0)),
        field<&C::shuffle_shards>("Shards that such a window mixes.", config::between(1, 4096)),
        field<&C::cache_dir>("Where the shards' indices are kept for the next run.", config::non_empty),
    };
  }
};

/// The type of the ids in token files that don't state it themselves.
enum class TokenDtype { uint16, uint32 };

/// Sequences of one length out of files of token ids: raw (nanoGPT), with llm.c's header, or one-dimensional .npy.
struct TokenizedConfig {
  static constexpr std::string_view kind = "tokenized";
  std::vector<std::string> train;
  std::vector<std::string> eval;
  double eval_fraction = 0;
  TokenDtype token_dtype = TokenDtype::uint16;
  std::int64_t vocab_size = 50257;
  std::int64_t seq_len = 1024;

  DatasetFacts facts() const {
    return {
        .samples =
            TokenFacts{.max_length = seq_len, .tokenizer = std::nullopt, .length_group_batches = 0, .is_stream = false},
        .targets = Targets::next_tokens,
        .num_classes = 0,
        .class_names = std::vector<std::string>(),
        .eval = EvalFacts{.has_own_set = !eval.empty(), .kept_share = eval_fraction},
        .indexed_files = {{train, ".bin"}, {eval, ".bin"}}};
  }
  static constexpr auto fields() {
    using config::field;
    using C = TokenizedConfig;
    return config::Fields{
        field<&C::train>("Files to train on: paths, globs, directories (their .bin and .npy), or braces.",
                         config::required & config::non_empty),
        field<&C::eval>("Files to evaluate on; empty: see `eval_fraction`."),
        field<&C::eval_fraction>(
            "Without `eval`: this share of each file's sequences, its end, is kept for evaluation.", config::below_one),
        field<&C::token_dtype>("What a raw file's ids are stored as; llm.c's and .npy files say it themselves."),
        field<&C::vocab_size>("Token ids are below this; others are an error, with file and place.",
                              config::required & config::between(2, 2147483647)),
        field<&C::seq_len>("Tokens in a sequence. None crosses from one file into the next.", config::at_least(1)),
    };
  }
};

/// auto: by the name's ending (.parquet, .tsv, .tab), else by the separator of the first rows.
enum class TableFileFormat { auto_, csv, tsv, parquet };
/// What an empty cell (or NA, NaN, null) of a feature does.
enum class MissingValues { error, drop, mean };
enum class FeatureScaling { none, standard, piecewise_linear };

/// The sign before a number's fraction.
enum class DecimalSign { auto_, point, comma };

/// Stands for runs of blanks and tabs between cells.
inline constexpr char kWhitespace = ' ';
/// Returns the separator that the key means; none if it means none.
constexpr std::optional<char> separator_in(std::string_view key) {
  if (key == "whitespace" || key == " ") return kWhitespace;
  if (key == "\\t" || key == "tab") return '\t';
  if (key.size() != 1 || key[0] == '"' || key[0] == '\n' || key[0] == '\r') return std::nullopt;
  return key[0];
}

/// Rows of numbers, categories and dates with a label, from CSV, TSV or Parquet.
struct TableConfig {
  static constexpr std::string_view kind = "table";
  std::vector<std::string> train;
  std::vector<std::string> eval;
  std::vector<std::string> test{};
  double eval_fraction = 0;
  double test_fraction = 0;
  std::int64_t split_seed = 0;
  TableFileFormat format = TableFileFormat::auto_;
  std::vector<std::string> features;
  std::string label = "label";
  LabelType label_type = LabelType::class_;
  LabelScaling label_scaling = LabelScaling::none;
  std::vector<std::string> class_names;
  MissingValues missing_values = MissingValues::error;
  FeatureScaling feature_scaling = FeatureScaling::standard;
  std::int64_t num_bins = 48;
  std::vector<std::string> numerical_columns;
  std::vector<std::string> categorical_columns;
  std::vector<std::string> date_columns;
  std::int64_t max_categories = 100;
  config::AutoOr<std::string> separator{};
  DecimalSign decimal = DecimalSign::auto_;
  std::string encoding = "utf-8";
  config::AutoOr<std::int64_t> header_lines;

  DatasetFacts facts() const {
    return {.samples = RowFacts(),
            .targets = label_type == LabelType::value ? Targets::values : Targets::labels,
            .num_classes = static_cast<std::int64_t>(class_names.size()),
            .class_names = class_names,
            .eval = EvalFacts{.has_own_set = !eval.empty(), .kept_share = eval_fraction},
            .test = {.has_own_set = !test.empty(), .kept_share = test_fraction},
            .can_fold = true,
            .broken_rules = broken_rules()};
  }
  std::vector<config::BrokenRule> broken_rules() const {
    std::vector<config::BrokenRule> broken = broken_label_rules(label_type, label_scaling);
    if (feature_scaling != FeatureScaling::piecewise_linear && num_bins != TableConfig{}.num_bins)
      broken.push_back({{"num_bins", "feature_scaling"},
                        "changes nothing while numbers aren't in bins; set feature_scaling: piecewise_linear"});
    if (!separator.is_auto() && !separator_in(*separator.value))
      broken.push_back({{"separator"}, "expected one character, \\t, or whitespace (any run of blanks and tabs)"});
    add_column_rules(broken);
    for (const auto& [key, is_set] :
         {std::pair("separator", !separator.is_auto()), std::pair("decimal", decimal != DecimalSign::auto_),
          std::pair("encoding", encoding != TableConfig{}.encoding),
          std::pair("header_lines", !header_lines.is_auto())})
      if (is_set && is_parquet()) broken.push_back({{key, "train", "format"}, "is for csv and tsv; no file is one"});
    return broken;
  }
  /// Adds the rules of the lists that say what columns are: each column is of one kind, and the label of none.
  void add_column_rules(std::vector<config::BrokenRule>& broken) const {
    std::map<std::string, std::string> lists;
    for (const auto& [key, columns] :
         {std::pair("numerical_columns", &numerical_columns), std::pair("categorical_columns", &categorical_columns),
          std::pair("date_columns", &date_columns)})
      for (std::size_t i = 0; i < columns->size(); ++i) {
        const std::string& column = (*columns)[i];
        const std::string path = std::string(key) + "[" + std::to_string(i) + "]";
        if (column == label) broken.push_back({{path, "label"}, "'" + column + "' is the label, and no feature"});
        if (const auto [first, is_new] = lists.emplace(column, key); !is_new)
          broken.push_back({{path, first->second}, "'" + column + "' is in dataset." + first->second + " already"});
      }
  }
  /// Returns whether each file is one of Parquet, by its name or by `format`.
  bool is_parquet() const {
    if (format != TableFileFormat::auto_) return format == TableFileFormat::parquet;
    const auto are_parquet = [](const std::vector<std::string>& files) {
      return std::all_of(files.begin(), files.end(), [](const std::string& file) {
        return format_of(file, TextFormat::auto_) == TextFormat::parquet;
      });
    };
    return are_parquet(train) && are_parquet(eval) && are_parquet(test);
  }
  static constexpr auto fields() {
    using config::field;
    using C = TableConfig;
    return config::Fields{
        field<&C::train>("Files to train on: paths, globs, directories, or braces.",
                         config::required & config::non_empty),
        field<&C::eval>("Files to evaluate on; empty: see `eval_fraction`."),
        field<&C::test>(split_help::test),
        field<&C::eval_fraction>(
            "Without `eval`: this share of the training rows, chosen by a hash of each row's content, "
            "is kept for evaluation.",
            config::below_one),
        field<&C::test_fraction>(split_help::test_fraction, config::below_one),
        field<&C::split_seed>("Another seed keeps other rows for evaluation and test.", config::any_seed),
        field<&C::format>("`auto` goes by the names' endings, and by the separator of the first rows."),
        field<&C::features>("Columns with the inputs, by name or by number from 1; empty: all but the label."),
        field<&C::label>("The column with the label, by name or by number from 1.",
                         config::required & config::non_empty),
        field<&C::label_type>("`class`: labels are names; `value`: they are numbers, for regression."),
        field<&C::label_scaling>(text_help::label_scaling),
        field<&C::class_names>(
            "The classes' names, in the order of their numbers; empty takes those of the training rows, "
            "sorted (as numbers, where all are)."),
        field<&C::missing_values>(
            "What a number or date without a value does: `error` ends with file and line, `drop` leaves the row out, "
            "`mean` takes the training rows' mean. A row without a label is left out with `drop`, else "
            "an error."),
        field<&C::feature_scaling>(
            "`standard`: each number less its mean over its standard deviation, of the training rows. "
            "`piecewise_linear`: an input for each of `num_bins` bins with as many training rows, 0 below the bin, 1 "
            "above, and linear within it; an MLP learns thresholds from it."),
        field<&C::num_bins>("Of `piecewise_linear`: bins of a number, fewer if it has fewer values.",
                            config::between(2, 1000)),
        field<&C::numerical_columns>(
            "Features that are numbers. The first 10,000 rows decide on columns that are in none of these lists: "
            "numbers, dates (2024-05-31, 2024-05-31 12:30), or categories."),
        field<&C::categorical_columns>(
            "Features that are categories, one input each; a cell without a value is a category of its own."),
        field<&C::date_columns>("Features that are dates: the day, and month, weekday and hour as places on circles."),
        field<&C::max_categories>(
            "Of a column: the most frequent categories with an input of their own; others share one.",
            config::between(1, 100'000)),
        field<&C::separator>(
            "Of csv, tsv: what is between cells, such as `;` or `\\t`; `whitespace` is any run of blanks and tabs; "
            "`auto` finds it by the first 10,000 rows.",
            config::non_empty),
        field<&C::decimal>(
            "Of csv, tsv: the sign of numbers; `auto` takes a comma where the first 10,000 rows of a column have it."),
        field<&C::encoding>("Of csv, tsv: any name that ICU knows, such as latin1, windows-1252, utf-16 or shift_jis.",
                            config::non_empty),
        field<&C::header_lines>(
            "Of csv, tsv: lines before the data, of which the first names the columns; `auto` looks at the first rows.",
            config::between(0, 1000)),
    };
  }
};

}  // namespace trainctl::dataset
