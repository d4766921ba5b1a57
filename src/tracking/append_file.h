// A file that grows by whole records: each is on its way to the disk when append returns, and none is left half
// written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.h"

namespace trainctl::tracking {

enum class IfExists { append, truncate, refuse };

/// Says which records a file lacks for good.
class LostRecords : public core::Error {
 public:
  using core::Error::Error;
};

class AppendFile {
 public:
  /// An Error when it can't be opened, or exists and shouldn't.
  AppendFile(std::filesystem::path path, IfExists if_exists);
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  ~AppendFile();

  /// Appends a record. Throws an Error if the record could not be written whole; the file then ends at its former end.
  /// Such a record is kept, and goes before the next one.
  void append(std::string_view record);
  /// Appends a large record of a step. If it can't be written, it is kept only within 16 MiB of records. Once there is
  /// room again, the next call throws LostRecords with the number and the steps of those that were left out.
  void append_large(std::string_view record, std::int64_t step);
  /// Tries for the last time to write the kept records. Throws LostRecords if the file lacks any.
  void finish();

 private:
  void reopen_removed();
  void write_kept_back();
  void report_left_out();

  std::filesystem::path path_;
  int descriptor_;
  std::int64_t size_;
  std::string kept_back_;
  std::int64_t num_left_out_ = 0;
  std::int64_t first_left_out_ = 0;  // step
  std::int64_t last_left_out_ = 0;
};

/// All of `text`, whatever the number of writes that takes; false with errno set otherwise.
bool write_all(int descriptor, std::string_view text);

}  // namespace trainctl::tracking
