// Correlation of two lists of numbers.
#pragma once

#include <span>

namespace trainctl::task {

/// Pearson's coefficient; 0 where one of the lists doesn't vary.
double pearson(std::span<const double> a, std::span<const double> b);

/// Pearson's coefficient of the ranks, where equal numbers share the mean of theirs.
double spearman(std::span<const double> a, std::span<const double> b);

}  // namespace trainctl::task
