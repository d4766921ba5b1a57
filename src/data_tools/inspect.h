// Looks at files that a user has, and says what an experiment must know of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "dataset/config.h"

namespace trainctl::data_tools {

/// Names with the number of samples of each, most frequent first.
using Counts = std::vector<std::pair<std::string, std::int64_t>>;

/// A table of images' labels.
struct SeenLabels {
  std::string table;
  std::string file;   // name or number of the column of file names
  std::string label;  // name or number of the column of labels
};

/// A directory with a folder of images for each class, or with images and a table of their labels.
struct SeenImages {
  std::string train;
  std::optional<std::string> eval;
  std::optional<std::string> test{};
  std::optional<SeenLabels> labels{};
  Counts classes;
  std::int64_t num_images = 0;  // of the training set
  std::int64_t median_width = 0;
  std::int64_t median_height = 0;
  std::int64_t num_damaged = 0;  // of the files that were looked at
  std::int64_t num_looked_at = 0;
  std::int64_t num_turned = 0;             // of them, those that EXIF says are stored turned
  std::vector<std::string> passed_over{};  // names of other files beside them
};

/// A column of a table, or a member of the objects of JSON lines.
struct SeenColumn {
  std::string name;  // or the number from 1
  std::string kind;  // number, date, category, text
  std::int64_t num_missing = 0;
  std::int64_t num_distinct = 0;  // at most kMostDistinct are counted
  std::string left_out{};         // why the column is no input: "no value in any row"; empty: the column is one

  /// Returns whether a row without a value needs dataset.missing_values. A category without one is a category.
  bool needs_values() const { return left_out.empty() && (kind == "number" || kind == "date"); }
};

/// Rows with a label: texts, or columns of numbers, categories and dates.
struct SeenRows {
  std::string train;
  std::optional<std::string> eval;
  std::optional<std::string> test{};
  bool is_jsonl = false;
  bool has_header = true;
  std::int64_t num_rows = 0;        // that were looked at
  bool is_part = false;             // the file has more rows
  std::int64_t num_incomplete = 0;  // of tables: rows without a value in a column that has values
  std::vector<SeenColumn> columns;
  std::string label;                       // name or number of the column
  bool label_is_guessed = false;           // by its name or its place
  bool label_is_value = false;             // numbers to predict, no classes
  std::optional<std::string> text{};       // name or number of the column of texts; none: a table
  std::optional<std::string> text_pair{};  // the column of second texts
  Counts classes;
  std::vector<std::string> unlabelled{};   // names of other sets, which lack the label
  bool sets_miss_labels = false;           // some rows of the sets for evaluation and test
  bool sets_miss_numbers = false;          // likewise, numbers or dates
  std::vector<std::string> passed_over{};  // names of other files in the directory
};

/// Plain texts, or objects with a text each.
struct SeenTexts {
  std::string train;
  std::optional<std::string> eval{};
  std::optional<std::string> test{};
  std::vector<std::string> patterns{};  // of the texts in a directory that has other files, too
  std::int64_t num_files = 0;
  std::int64_t num_bytes = 0;
  std::optional<std::string> member{};     // of the objects
  std::vector<std::string> passed_over{};  // names of other files in the directory
};

/// Conversations in JSON lines.
struct SeenChat {
  std::string train;
  std::optional<std::string> eval;
  std::optional<std::string> test{};
  std::int64_t num_rows = 0;  // that were looked at
  bool is_part = false;       // the file has more rows
  std::int64_t num_turns = 0;
  std::int64_t median_bytes = 0;           // of a row
  std::vector<std::string> passed_over{};  // names of other files in the directory
};

using SeenData = std::variant<SeenImages, SeenRows, SeenTexts, SeenChat>;

struct InspectOptions {
  std::string eval = "";   // path of the evaluation set; empty: what lies beside the training set
  std::string label = "";  // column with the label; empty: it is guessed
  std::string text = "";   // column with the texts; empty: it is guessed
};

inline constexpr std::int64_t kMostDistinct = 10'000;

/// Looks at a directory of photos, a table, labelled texts, conversations or plain texts. In a directory the kind of
/// most files decides. Throws core::Error if the path holds none of them, or something that only looks like one. Such
/// are answers in the place of classes, masks beside images, and sets without one to train on.
SeenData inspect(const std::filesystem::path& path, const InspectOptions& options);

struct SuggestionOptions {
  std::string name;                // of the experiment
  std::int64_t batch_divisor = 1;  // divides the usual batch size, for a machine with little memory
};

/// An experiment that trains on the data.
struct Suggestion {
  std::string remarks;     // lines of comments: what was seen and assumed
  std::string experiment;  // YAML
  std::string text() const { return remarks + experiment; }
};
Suggestion suggested_experiment(const SeenData& seen, const SuggestionOptions& options);

}  // namespace trainctl::data_tools
