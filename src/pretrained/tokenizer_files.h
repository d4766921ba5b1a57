// A tokenizer's files, for whoever gets the model.
#pragma once

#include <filesystem>
#include <vector>

namespace trainctl::pretrained {

/// Copies the files that a tokenizer is kept in, under the names that others look for; returns the copies. `tokenizer`
/// is one of them, or their directory.
std::vector<std::filesystem::path> copy_tokenizer(const std::filesystem::path& tokenizer,
                                                  const std::filesystem::path& directory);

}  // namespace trainctl::pretrained
