// How far predicted numbers are from their targets.
#pragma once

#include <span>

namespace trainctl::task {

/// Means over the pairs, of which there is at least one.
double mean_absolute(std::span<const double> predicted, std::span<const double> targets);
double mean_square(std::span<const double> predicted, std::span<const double> targets);

/// Coefficient of determination: 1 less the squared errors over the targets' squared distances from their mean. For
/// targets that don't vary: 1 if all predictions are right, else 0 (as scikit-learn's r2_score).
double r2(std::span<const double> predicted, std::span<const double> targets);

}  // namespace trainctl::task
