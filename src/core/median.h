// The middle of measured values.
#pragma once

#include <vector>

namespace trainctl::core {

/// Returns the median of at least one value: the mean of the two in the middle if their number is even.
double median(std::vector<double> values);

}  // namespace trainctl::core
