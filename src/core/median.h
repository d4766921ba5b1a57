// The middle of measured values.
#pragma once

#include <vector>

namespace trainctl::core {

/// Of an even number the mean of the two in the middle; of at least one.
double median(std::vector<double> values);

}  // namespace trainctl::core
