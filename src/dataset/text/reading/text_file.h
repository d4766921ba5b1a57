// A text file's content as UTF-8, mapped rather than read. What isn't text is an Error with file and line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/mapped_file.h"
#include "dataset/text_config.h"

namespace trainctl::dataset {

class TextFile {
 public:
  /// Refuses directories, empty files, NUL bytes, and what isn't UTF-8 if so asked; else that is U+FFFD.
  TextFile(const std::filesystem::path& path, EncodingErrors invalid);
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  /// Without a byte order mark. Lives as long as this.
  std::string_view text() const { return text_; }

 private:
  core::MappedFile file_;
  std::string replaced_;  // a copy, only where bytes had to be replaced
  std::string_view text_;
};

/// "train.tsv:17"
std::string place_of(const std::filesystem::path& file, std::int64_t line);

/// Takes the front line off, without its end (LF or CR LF).
std::string_view take_line(std::string_view& rest);

}  // namespace trainctl::dataset
