// The columns of a table or of JSON lines, by their first rows.
#pragma once

#include <filesystem>
#include <optional>

#include "data_tools/inspect.h"

namespace trainctl::data_tools {

/// Looks at rows of .csv, .tsv, .tab, .data, .jsonl and .ndjson files. Objects with a text alone have no label. Throws
/// core::Error if there are no rows.
SeenRows inspect_rows(const std::filesystem::path& file, const InspectOptions& options);

/// Looks at a file of JSON lines. Null if its first row is no conversation.
std::optional<SeenChat> inspect_chat(const std::filesystem::path& file, const InspectOptions& options);

/// Looks at a directory with a folder of images for each class, or with such directories for training and evaluation.
SeenImages inspect_images(const std::filesystem::path& directory, const InspectOptions& options);

/// Looks at a directory of images, and at a table in it that has their names in a column. Null if `table` has none.
std::optional<SeenImages> inspect_labelled_images(const std::filesystem::path& directory,
                                                  const std::filesystem::path& table, const InspectOptions& options);

bool is_image(const std::filesystem::path& file);

}  // namespace trainctl::data_tools
