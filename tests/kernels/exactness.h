// How far results of floats are from those of doubles.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <vector>

namespace trainctl::kernels {

/// Largest difference, relative to the largest magnitude, which is taken to be at least `least`.
inline double error_of(const at::Tensor& actual, const at::Tensor& exact, double least = 1e-30) {
  const at::Tensor wanted = exact.detach().to(at::kDouble);
  const double magnitude = std::max(wanted.abs().max().item<double>(), least);
  return actual.detach().to(at::kDouble).sub(wanted).abs().max().item<double>() / magnitude;
}

/// Returns the values as doubles, which require a gradient.
inline at::Tensor exactly(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.detach().to(at::kDouble, false, /*copy=*/true).requires_grad_(true) : at::Tensor();
}

/// The derivative of a function of doubles at x along `direction`, by central differences.
template <class Function>
double finite_difference(const Function& function, const std::vector<at::Tensor>& x,
                         const std::vector<at::Tensor>& direction, double step = 1e-6) {
  const auto at_distance = [&](double distance) {
    std::vector<at::Tensor> moved;
    for (std::size_t i = 0; i < x.size(); ++i)
      moved.push_back(x[i].detach().to(at::kDouble).add(direction[i].to(at::kDouble), distance));
    return function(moved).template item<double>();
  };
  return (at_distance(step) - at_distance(-step)) / (2 * step);
}

/// Σ gradient · direction, over all of them.
inline double along(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& direction) {
  double sum = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    sum += gradients[i].to(at::kDouble).mul(direction[i].to(at::kDouble)).sum().item<double>();
  return sum;
}

}  // namespace trainctl::kernels
