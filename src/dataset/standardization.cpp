#include "dataset/standardization.h"

#include <algorithm>
#include <cmath>

namespace trainctl::dataset {

Standardization standardization_of(std::span<const double> values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  // A power of two, so that nothing is rounded: squares of very large or small numbers stay within a double.
  const double unit = largest > 0 ? std::ldexp(1.0, std::ilogb(largest)) : 1.0;
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += value / unit;
  const double mean = sum / count;
  double squares = 0;
  for (const double value : values) squares += (value / unit - mean) * (value / unit - mean);
  const double deviation = std::sqrt(squares / count);
  // Equal numbers differ from their mean by rounding alone.
  const bool varies = deviation > 1e-12 * std::abs(mean) && deviation > 0;
  return {.mean = mean * unit, .deviation = varies ? deviation * unit : 1};
}

}  // namespace trainctl::dataset
