// Rows read from tables, before they become samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dataset/config.h"
#include "dataset/files/parquet/plugin.h"
#include "dataset/table/spilling_vector.h"
#include "dataset/text/reading/column_kind.h"
#include "dataset/text/reading/table_layout.h"

namespace trainctl::dataset {

/// The columns that are read, by name or by number from 1.
struct TableColumns {
  std::vector<std::string> features;  // empty: all but the label
  std::string label;
  LabelType label_type = LabelType::class_;
  std::map<std::string, ColumnKind> kinds{};  // of columns that the user names; the first rows decide on the others
  std::vector<std::string> class_names{};     // known ones: a label of this name is one, even if it is None
  bool has_decimal_comma = false;             // in the training files, and so in all others
  std::optional<bool> has_header{};           // likewise; none: these are the training files
};

/// A cell of a text table.
struct TableCell {
  std::string_view text;
  bool is_quoted = false;  // NA in quotes is a text
};

/// Rows of all files of a set. Of a large set they lie in temporary files.
struct TableData {
  std::vector<std::string> features;                 // names, or numbers if there is no header
  std::string label;                                 // likewise
  std::vector<ColumnKind> kinds;                     // [F]
  std::vector<std::vector<std::string>> categories;  // [F], in the order in which they came; "": no value
  SpillingVector<double> values;                     // [N, F]: number, days, or index of a category; NaN: missing
  SpillingVector<std::int32_t> classes;              // [N], in label_names; -1: missing. Empty for values
  SpillingVector<double> targets;                    // [N]; NaN: missing. Empty for classes
  SpillingVector<std::uint64_t> hashes;              // [N], of the rows' content
  SpillingVector<std::int64_t> lines;                // [N], from 1
  SpillingVector<std::uint32_t> files;               // [N], in paths
  std::vector<std::string> label_names;              // as they came
  bool has_decimal_comma = false;                    // the numbers of a file
  bool has_header = true;                            // the columns have names; false: they are numbered
  std::vector<std::string> paths;
  std::set<std::string> index_columns{};  // of a pandas.DataFrame, which were left out

  std::size_t num_rows() const { return hashes.size(); }
  std::size_t num_features() const { return features.size(); }
  /// "flights.csv:17"
  std::string place(std::size_t row) const;
};

/// Takes rows in, file by file. The first rows decide what kind each column is of.
class TableBuilder {
 public:
  explicit TableBuilder(TableColumns columns) : columns_(std::move(columns)) {
    data_.has_decimal_comma = columns_.has_decimal_comma;
  }

  const TableColumns& columns() const { return columns_; }
  /// Whether a file so far has numbers with a decimal comma: those that follow then have it, too.
  bool has_decimal_comma() const { return data_.has_decimal_comma; }
  /// The columns of the next file, from 0: which are features, which is the label. All files must have the same.
  struct Layout {
    std::vector<std::size_t> features;
    std::size_t label = 0;
  };
  /// `header`: the columns' names, each once, or their numbers if the file has none. `stored`: the kinds of columns in
  /// a file that has types. `decimal`: the sign of its numbers.
  Layout begin_file(const std::string& path, const std::vector<std::string>& header, char decimal,
                    const std::vector<std::optional<ColumnKind>>& stored = {});
  /// Notes that a file has no header, so that numbers stand for its columns.
  void number_columns() { data_.has_header = false; }
  /// Notes that a column is left out: the index of a pandas.DataFrame.
  void leave_out_index(const std::string& column) { data_.index_columns.insert(column); }
  /// Adds a row of text.
  void add(std::span<const TableCell> features, TableCell label, std::int64_t line);
  /// Adds a row of a file with types: the features, then the label.
  void add_typed(const ParquetRow& row);
  TableData take();

 private:
  /// A row that waits until the kinds of columns are decided.
  struct WaitingCell {
    std::string text;
    bool is_quoted = false;
    operator TableCell() const { return {text, is_quoted}; }
  };
  struct WaitingRow {
    std::vector<WaitingCell> features;
    WaitingCell label;
    std::int64_t line = 0;
    std::uint32_t file = 0;
  };
  std::string place(std::int64_t line) const;
  ColumnKind kind_of_column(std::size_t feature) const;
  void decide_kinds();
  void add_decided(std::span<const TableCell> features, TableCell label, std::int64_t line);
  double stored_value(std::size_t feature, TableCell cell, std::int64_t line);
  void check_truth(std::size_t column, std::string_view cell, std::int64_t line);
  void check_stored(std::size_t feature, const ParquetRow& row);
  void check_texts(std::size_t feature, bool is_text, std::int64_t line);
  void check_spellings() const;
  double finite(std::size_t feature, double value, std::int64_t line) const;
  double category(std::size_t feature, std::string_view cell, std::int64_t line);
  void add_label(TableCell label, std::int64_t line);
  void finish_row(std::string key, TableCell label, std::int64_t line);

  TableColumns columns_;
  TableData data_;
  std::vector<std::optional<ColumnKind>> kinds_;       // [F]: that the user or the file states
  std::vector<ColumnKind> stored_;                     // [F]: of a file with types
  std::vector<std::optional<bool>> has_truth_values_;  // [F + 1]: by a column's first number; the label is the last
  std::vector<std::optional<bool>> has_texts_;         // [F]: a column of categories in files with types
  std::vector<bool> has_checked_truth_;                // [F]: in this file with types
  std::vector<bool> are_texts_;                        // [F + 1]: in all files, which have types; the label is the last
  bool label_is_stored_text_ = false;                  // in this file with types
  std::vector<WaitingRow> waiting_;
  std::uint32_t file_ = 0;                                                 // of the row that is added, in data_.paths
  std::vector<char> decimals_;                                             // [paths]
  std::vector<std::unordered_map<std::string, double>> category_numbers_;  // [F]
  std::map<std::string, std::int32_t, std::less<>> label_numbers_;
};

/// Returns what the config and the name of a text table say of its layout.
KnownLayout known_layout(const TableConfig& config, const std::filesystem::path& file);

/// How files are read.
struct TableReading {
  const TableConfig& config;
  std::int64_t most_rows = std::numeric_limits<std::int64_t>::max();  // of each file
  std::function<void(const std::string&)> tell{};                     // hears of what the rows showed
};

/// Reads CSV, TSV and Parquet files.
TableData read_tables(std::span<const std::filesystem::path> files, const TableReading& reading, TableColumns columns);

}  // namespace trainctl::dataset
