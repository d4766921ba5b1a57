// A text file's content as UTF-8, mapped rather than read. What isn't text is an Error with file and line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/mapped_file.h"
#include "dataset/text_config.h"

namespace trainctl::dataset {

/// How bytes become text.
struct TextReading {
  std::string encoding = "utf-8";  // a name that ICU knows
  EncodingErrors invalid = EncodingErrors::strict;
};

/// Returns the bytes of a file as UTF-8, without a byte order mark: a view of them, or of `converted`. Throws
/// core::Error at line and byte for NUL, and for what the encoding doesn't have, unless that is to be U+FFFD. An
/// encoding that isn't known is an Error, too.
std::string_view text_of_bytes(std::string_view bytes, const TextReading& reading, const std::filesystem::path& file,
                               std::string& converted);

class TextFile {
 public:
  /// Refuses directories and empty files, and throws as text_of_bytes() does.
  explicit TextFile(const std::filesystem::path& path, const TextReading& reading = {});
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  /// Without a byte order mark. Lives as long as this.
  std::string_view text() const { return text_; }

 private:
  core::MappedFile file_;
  std::string converted_;  // a copy, only where bytes had to change
  std::string_view text_;
};

/// "train.tsv:17"
std::string place_of(const std::filesystem::path& file, std::int64_t line);

/// Takes the front line off, without its end (LF or CR LF).
std::string_view take_line(std::string_view& rest);

}  // namespace trainctl::dataset
