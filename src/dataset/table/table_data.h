// Rows of numbers read from tables, before they become samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/config.h"

namespace trainctl::dataset {

/// What is read: columns by name or by number from 1.
struct TableColumns {
  std::vector<std::string> features;  // empty: all but the label
  std::string label;
  LabelType label_type = LabelType::class_;
};

/// Rows of all files of a set.
struct TableData {
  std::vector<std::string> features;     // names, or numbers where there is no header
  std::vector<float> values;             // [N, F]; NaN: missing
  std::vector<std::int32_t> classes;     // [N], in label_names; -1: missing. Empty for values
  std::vector<double> targets;           // [N]; NaN: missing. Empty for classes
  std::vector<std::uint64_t> hashes;     // [N], of the rows' content
  std::vector<std::int64_t> lines;       // [N], from 1
  std::vector<std::uint32_t> files;      // [N], in paths
  std::vector<std::string> label_names;  // as they came
  std::vector<std::string> paths;

  std::size_t num_rows() const { return hashes.size(); }
  std::size_t num_features() const { return features.size(); }
  /// "flights.csv:17"
  std::string place(std::size_t row) const;
};

/// Takes rows in, file by file.
class TableBuilder {
 public:
  explicit TableBuilder(TableColumns columns) : columns_(std::move(columns)) {}

  const TableColumns& columns() const { return columns_; }
  /// The columns of the next file, from 0: which are features, which is the label. All files must have the same.
  struct Layout {
    std::vector<std::size_t> features;
    std::size_t label = 0;
  };
  /// `header`: the columns' names, or their numbers where the file has none.
  Layout begin_file(const std::string& path, const std::vector<std::string>& header);
  /// A number, or none where the cell is empty, NA, N/A, NaN, null, None or "?".
  std::optional<float> number(std::string_view cell, std::size_t feature, std::int64_t line) const;
  void add(std::span<const float> features, std::string_view label, std::int64_t line);
  TableData take() { return std::move(data_); }

 private:
  std::string place(std::int64_t line) const;
  void add_label(std::string_view label, std::int64_t line);

  TableColumns columns_;
  TableData data_;
  std::map<std::string, std::int32_t, std::less<>> numbers_;  // of label names
};

/// Reads CSV, TSV and Parquet files.
TableData read_tables(std::span<const std::filesystem::path> files, TableFileFormat format,
                      const config::AutoOr<std::int64_t>& header_lines, TableColumns columns);

}  // namespace trainctl::dataset
