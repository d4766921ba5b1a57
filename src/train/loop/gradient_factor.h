// What a step multiplies gradients by: at once, or by telling the update rule, which has them in hand anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace trainctl::train {

class GradientFactor {
 public:
  enum class When { at_once, in_update };

  GradientFactor(std::vector<at::Tensor> gradients, When when) : gradients_(std::move(gradients)), when_(when) {}

  /// Multiplies by a floating-point [].
  void multiply(const at::Tensor& by);
  /// Returns what a norm of the gradients as they are would be with all factors: float [].
  at::Tensor of_norm(const at::Tensor& norm) const;
  /// What is left for the update rule, a floating-point []; undefined: 1.
  const at::Tensor& left() const { return left_; }

 private:
  std::vector<at::Tensor> gradients_;
  When when_;
  at::Tensor left_;
};

}  // namespace trainctl::train
