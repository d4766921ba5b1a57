// https://arxiv.org/abs/1607.06450, over the last dimension.
#pragma once

#include <cstdint>

#include "kernels/norm.h"
#include "model/layer.h"

namespace trainctl::model {

class LayerNorm final : public UnaryLayer {
 public:
  LayerNorm(std::int64_t size, double epsilon);
  at::Tensor compute(const at::Tensor& input) override;  // [..., size]
  /// The residual connection before it, too.
  kernels::NormedSum add(const at::Tensor& residual, const at::Tensor& branch, kernels::NormedFor use);

 private:
  at::Tensor& weight_;  // [size]
  at::Tensor& bias_;    // [size]
  double epsilon_;
};

}  // namespace trainctl::model
