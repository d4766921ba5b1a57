#include "core/median.h"

#include <algorithm>

#include "core/error.h"

namespace trainctl::core {

double median(std::vector<double> values) {
  ensure(!values.empty(), "a median is of something");
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace trainctl::core
