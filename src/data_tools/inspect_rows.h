// The columns of a table or of JSON lines, by their first rows.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.h"
#include "data_tools/inspect.h"

namespace trainctl::data_tools {

/// Looks at rows of .csv, .tsv, .tab, .data, .jsonl, .ndjson and .parquet files. Rows with a text, and nothing that is
/// known for a label, have no label. Throws core::Error if there are no rows, or no column has labels.
SeenRows inspect_rows(const std::filesystem::path& file, const InspectOptions& options);

/// What rows beside the training rows lack.
struct MissingValues {
  bool every_label = false;
  bool any_label = false;
  bool any_number = false;  // or date, among the inputs
};

/// Looks at another file of the same columns as `training`.
MissingValues missing_values(const std::filesystem::path& file, const SeenRows& training);

/// Looks at a file of JSON lines. Null if its first row is no conversation.
std::optional<SeenChat> inspect_chat(const std::filesystem::path& file);

/// Looks at a directory with a folder of images for each class, or with such directories for training and evaluation.
SeenImages inspect_images(const std::filesystem::path& directory, const InspectOptions& options);

/// Returns what is wrong with folders that are no classes: images beside their masks, and sets without one to train on.
std::optional<core::Error> why_no_classes(const SeenImages& seen);

/// Looks at a directory with images, or with a folder of images, and at a table in it that has their names in a column.
/// Null if `table` has none.
std::optional<SeenImages> inspect_labelled_images(const std::filesystem::path& directory,
                                                  const std::filesystem::path& table, const InspectOptions& options);

bool is_image(const std::filesystem::path& file);

std::string lower_case(std::string text);

enum class NamedSet { train, eval, test };

/// Returns the set that a file or folder is called after, in any case: Train, training_set, seg_test, val2017.
std::optional<NamedSet> set_of_name(std::string_view name);

/// Throws core::Error if samples have one class, or nearly as many classes as there are samples. `subject`: what has
/// the labels, for the message.
void check_classes(const std::string& subject, const Counts& classes);

}  // namespace trainctl::data_tools
