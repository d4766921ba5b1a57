// The columns of a table or of JSON lines, by their first rows.
#pragma once

#include <filesystem>
#include <optional>

#include "data_tools/inspect.h"

namespace trainctl::data_tools {

/// Looks at rows of .csv, .tsv, .tab, .data, .jsonl and .ndjson files. Throws core::Error if there are none.
SeenRows inspect_rows(const std::filesystem::path& file, const InspectOptions& options);

/// Looks at a file of JSON lines. Null if its first row is no conversation.
std::optional<SeenChat> inspect_chat(const std::filesystem::path& file, const InspectOptions& options);

/// Looks at a directory with a folder of images for each class, or with such directories for training and evaluation.
SeenImages inspect_images(const std::filesystem::path& directory, const InspectOptions& options);

}  // namespace trainctl::data_tools
