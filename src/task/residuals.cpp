#include "task/residuals.h"

#include <cmath>
#include <numeric>

#include "core/error.h"

namespace trainctl::task {

double mean_absolute(std::span<const double> predicted, std::span<const double> targets) {
  core::ensure(predicted.size() == targets.size(), "each prediction has a target");
  double sum = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) sum += std::abs(predicted[i] - targets[i]);
  return sum / static_cast<double>(targets.size());
}

double mean_square(std::span<const double> predicted, std::span<const double> targets) {
  core::ensure(predicted.size() == targets.size(), "each prediction has a target");
  double sum = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) sum += (predicted[i] - targets[i]) * (predicted[i] - targets[i]);
  return sum / static_cast<double>(targets.size());
}

double r2(std::span<const double> predicted, std::span<const double> targets) {
  const auto count = static_cast<double>(targets.size());
  const double mean = std::accumulate(targets.begin(), targets.end(), 0.0) / count;
  double variation = 0;
  for (const double target : targets) variation += (target - mean) * (target - mean);
  const double errors = count * mean_square(predicted, targets);
  if (variation == 0) return errors == 0 ? 1 : 0;
  return 1 - errors / variation;
}

}  // namespace trainctl::task
