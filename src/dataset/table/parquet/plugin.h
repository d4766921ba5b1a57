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

struct ParquetRequest {
  std::string path;
  /// Given the columns' names: the features' numbers, then the label's.
  std::function<std::vector<int>(const std::vector<std::string>& names)> choose;
  /// A row's features (NaN where null), its label as text ("" where null), and its number from 1.
  std::function<void(std::span<const float> features, std::string_view label, std::int64_t row)> use;
};

/// Rethrows what the functions throw. Says in `wrong` what is wrong with the file. Bound as C, which knows no classes
/// to return.
using ReadParquetFunction = void(const ParquetRequest& request, std::string& wrong);
inline constexpr const char* kReadParquetSymbol = "trainctl_read_parquet";
inline constexpr const char* kParquetLibrary = "libtrainctl_parquet.so";

}  // namespace trainctl::dataset
