// What the Parquet library (libtrainctl_parquet.so, loaded when a Parquet file is read, built where there is Apache
// Arrow) offers to the program that loads it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::dataset {

enum class ParquetType { number, text, date };

struct ParquetColumn {
  std::string name;
  ParquetType type = ParquetType::number;
  bool is_index = false;  // of a pandas.DataFrame: pandas.read_parquet() doesn't count it among the columns
};

/// A row's cells in the columns that were chosen.
struct ParquetRow {
  std::span<const double> values;           // of numbers, and of dates as days since 1970-01-01; NaN: null
  std::span<const std::string_view> texts;  // of texts; "": null
  /// Returns a text, or a number as pandas writes it to CSV: integers in full, 1.0, True; "": null.
  const std::function<std::string(std::size_t column)>& text_of;
  std::int64_t number = 0;  // from 1
};

struct ParquetRequest {
  std::string path;
  /// Returns the numbers in the list of the columns that are read. `pandas`: what pandas has written of its table, as
  /// JSON; "": nothing.
  std::function<std::vector<int>(const std::vector<ParquetColumn>& columns, const std::string& pandas)> choose;
  std::function<void(const ParquetRow& row)> use;
};

/// Rethrows what the functions throw. Says in `wrong` what is wrong with the file. Bound as C, which knows no classes
/// to return.
using ReadParquetFunction = void(const ParquetRequest& request, std::string& wrong);
inline constexpr const char* kReadParquetSymbol = "trainctl_read_parquet";
inline constexpr const char* kParquetLibrary = "libtrainctl_parquet.so";

}  // namespace trainctl::dataset
