#include "dataset/files/named_files.h"

#include <filesystem>

namespace trainctl::dataset {

std::vector<std::string> named_files(const std::vector<std::string>& patterns, std::string_view key,
                                     const FileEndings& endings) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    std::error_code ignored;
    const bool is_plain =
        std::filesystem::is_regular_file(pattern, ignored) ||
        (pattern.find_first_of("*?[{") == std::string::npos && !std::filesystem::is_directory(pattern, ignored));
    if (is_plain) {
      files.push_back(pattern);
      continue;
    }
    for (const std::filesystem::path& file : expand_files(std::vector<std::string>{pattern}, endings, key))
      files.push_back(file.string());
  }
  return files;
}

}  // namespace trainctl::dataset
