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
};

struct ParquetRow {
  std::span<const float> values;            // of numbers, and of dates as days since 1970-01-01; NaN: null
  std::span<const std::string_view> texts;  // of texts; "": null
  std::string_view label;                   // as text; "": null
  std::int64_t number = 0;                  // from 1
};

struct ParquetRequest {
  std::string path;
  /// Returns the features' numbers in the list, then the label's.
  std::function<std::vector<int>(const std::vector<ParquetColumn>& columns)> choose;
  std::function<void(const ParquetRow& row)> use;
};

/// Rethrows what the functions throw. Says in `wrong` what is wrong with the file. Bound as C, which knows no classes
/// to return.
using ReadParquetFunction = void(const ParquetRequest& request, std::string& wrong);
inline constexpr const char* kReadParquetSymbol = "trainctl_read_parquet";
inline constexpr const char* kParquetLibrary = "libtrainctl_parquet.so";

}  // namespace trainctl::dataset
