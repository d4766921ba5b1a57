// What other folders must know of a dataset's kind before a file is read. Part of dataset/config.h; without LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/field.h"
#include "config/traits.h"

namespace trainctl::dataset {

/// What a batch's targets are.
enum class Targets {
  labels,         // int64 [B], below num_classes
  label_sets,     // int64 [B, num_classes]: 1 where the sample has the label, else 0
  class_masks,    // int64 [B, H, W], below num_classes; -100 where there is none
  values,         // float [B]: regression
  token_labels,   // int64 [B, T], below num_classes; -100 where there is none
  next_tokens,    // int64 [B, T], each token's successor; -100 where there is none
  masked_tokens,  // int64 [B, T], what was masked; -100 elsewhere
  preferences,  // int64 [B, T], as next_tokens; of a row's documents 0 and 1, 2 and 3, … the even ones are preferred
  target_tokens,  // int64 [B, T], each decoder input's successor; -100 where there is none
};

/// Rows and columns.
struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

/// Samples are images.
struct ImageFacts {
  config::Stated<std::int64_t> num_channels;
  config::Stated<bool> are_files;                 // decoded, and of any size until a transform makes them alike
  config::Stated<std::optional<ImageSize>> size;  // nothing: only the data tells
};

/// Samples are sequences of tokens.
struct TokenFacts {
  config::Stated<std::int64_t> max_length;               // 0: it differs between sources
  config::Stated<std::optional<std::string>> tokenizer;  // nothing: the ids are there
  config::Stated<std::int64_t> length_group_batches;     // runs of so many batches are sorted by length; 0: none
  config::Stated<bool> is_stream;                        // each sequence begins where the one before it ends
};

namespace split_help {
inline constexpr std::string_view test =
    "What `trainctl eval --split test` takes, as `eval` is given; training never reads it.";
inline constexpr std::string_view test_fraction =
    "Without `test`: a share that is kept for `trainctl eval --split test`, chosen as `eval_fraction` chooses, and "
    "apart from it. Training never sees it.";
}  // namespace split_help

/// Samples are rows of numbers.
struct RowFacts {};

using SampleFacts = std::variant<ImageFacts, TokenFacts, RowFacts>;

/// A set beside the training set: whether the config names it, and the share of the training set that is kept for it.
struct EvalFacts {
  bool has_own_set = false;
  double kept_share = 0;
};

/// A key of the config that no file of the dataset has a use for.
struct UnusedKey {
  std::string key;      // below `dataset.`
  std::string section;  // that holds the key, such as "train"
  std::string used_by;  // formats
};

/// An input that a dataset names and that isn't there, or isn't what it should be.
struct InputProblem {
  std::string key;  // "dataset.train[1]"
  std::string message;
};

/// Files that an index.json may list with their checksums.
struct IndexedFiles {
  std::vector<std::string> patterns;
  std::string ending;
};

/// What a dataset's config says.
struct DatasetFacts {
  config::Stated<SampleFacts> samples;
  config::Stated<Targets> targets;
  config::Stated<std::int64_t> num_classes;  // 0: only the data tells, or there are none
  config::Stated<std::vector<std::string>> class_names;
  config::Stated<EvalFacts> eval;
  std::vector<UnusedKey> unused_keys{};
  std::vector<IndexedFiles> indexed_files{};
  EvalFacts test{};                                // the test set
  bool can_fold = false;                           // `dataset.fold` chooses among its training samples
  std::vector<config::BrokenRule> broken_rules{};  // paths are below the dataset's: "labels.eval"
  bool tests_on_eval_files = false;  // a part of the training set for evaluation leaves the evaluation files for tests

  const ImageFacts* images() const { return std::get_if<ImageFacts>(&samples.value); }
  const TokenFacts* tokens() const { return std::get_if<TokenFacts>(&samples.value); }
  /// Tokens that a text is cut to; nothing for other samples, and for sources that differ.
  std::optional<std::int64_t> longest_text() const {
    const TokenFacts* found = tokens();
    return found == nullptr || found->max_length == 0 ? std::nullopt : std::optional<std::int64_t>(found->max_length);
  }
  bool has_evaluation_set() const { return eval.value.has_own_set || eval.value.kept_share > 0; }
  bool has_test_set() const { return test.has_own_set || test.kept_share > 0; }
};

}  // namespace trainctl::dataset
