// CSV and TSV as records of cells.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/container_config.h"
#include "dataset/text_config.h"

namespace trainctl::dataset {

struct TableFormat {
  char separator = ',';
  char decimal = '.';                 // of numbers
  Quoting quotes = Quoting::rfc4180;  // not auto_
  std::int64_t max_line_bytes = 64 << 20;
};

/// A table's rows, one record at a time. The text must outlive it.
class TableRecords {
 public:
  /// `first_line`: the number of the text's first line in the file.
  TableRecords(std::filesystem::path file, std::string_view text, TableFormat format, std::int64_t first_line = 1)
      : file_(std::move(file)), rest_(text), format_(format), line_(first_line) {}

  /// Reads the next record that isn't an empty line; false at the end.
  bool next();
  const std::vector<std::string>& cells() const { return cells_; }
  /// Returns whether a cell stands in quotes, so that NA in it is a text.
  bool is_quoted(std::size_t cell) const { return cell < quoted_.size() && quoted_[cell]; }
  /// Where the record begins, from 1.
  std::int64_t line() const { return line_; }

 private:
  void begin_cell();
  void split_line();
  void split_quoted();
  void take_quoted_cell();
  /// Takes the separator, or the end of the record, off the rest. Returns whether another cell follows.
  bool take_separator();

  std::filesystem::path file_;
  std::string_view rest_;
  TableFormat format_;
  std::vector<std::string> cells_;
  std::vector<bool> quoted_;
  std::int64_t line_;
  std::int64_t lines_taken_ = 0;
};

}  // namespace trainctl::dataset
