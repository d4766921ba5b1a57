// Numbers of mean 0 and standard deviation 1 instead of those of the data, and the way back.
#pragma once

#include <span>

namespace trainctl::dataset {

/// What scikit-learn's StandardScaler learns of a column.
struct Standardization {
  double mean = 0;
  double deviation = 1;  // standard deviation of the population; 1 if all numbers are equal

  double standardized(double value) const { return (value - mean) / deviation; }
  double restored(double standardized) const { return mean + deviation * standardized; }
  bool operator==(const Standardization&) const = default;
};

/// Numbers that stay as they are.
inline constexpr Standardization kAsTheyAre{};

/// Learns from the numbers, of which there is at least one.
Standardization standardization_of(std::span<const double> values);

}  // namespace trainctl::dataset
