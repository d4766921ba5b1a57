// CSV and TSV as records of cells.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/text_config.h"

namespace trainctl::dataset {

struct TableFormat {
  char separator = ',';
  Quoting quotes = Quoting::rfc4180;  // not auto_
  std::int64_t max_line_bytes = 64 << 20;
};

/// A table's rows, one record at a time. The text must outlive it.
class TableRecords {
 public:
  TableRecords(std::filesystem::path file, std::string_view text, TableFormat format)
      : file_(std::move(file)), rest_(text), format_(format) {}

  /// Reads the next record that isn't an empty line; false at the end.
  bool next();
  const std::vector<std::string>& cells() const { return cells_; }
  /// Where the record begins, from 1.
  std::int64_t line() const { return line_; }

 private:
  void split_line();
  void split_quoted();
  void take_quoted_cell();

  std::filesystem::path file_;
  std::string_view rest_;
  TableFormat format_;
  std::vector<std::string> cells_;
  std::int64_t line_ = 1;
  std::int64_t lines_taken_ = 0;
};

}  // namespace trainctl::dataset
