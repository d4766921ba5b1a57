// A file that grows by whole records: each is on its way to the disk when append returns, and none is left half
// written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace trainctl::tracking {

enum class IfExists { append, truncate, refuse };

class AppendFile {
 public:
  /// An Error when it can't be opened, or exists and shouldn't.
  AppendFile(std::filesystem::path path, IfExists if_exists);
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  ~AppendFile();

  /// Appends a record. Throws an Error if the record could not be written whole; the file then ends at its former end.
  /// Such a record goes before the next one (up to 16 MiB of them).
  void append(std::string_view record);

 private:
  void reopen_removed();

  std::filesystem::path path_;
  int descriptor_;
  std::int64_t size_;
  std::string kept_back_;
};

/// All of `text`, whatever the number of writes that takes; false with errno set otherwise.
bool write_all(int descriptor, std::string_view text);

}  // namespace trainctl::tracking
