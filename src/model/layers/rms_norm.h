// https://arxiv.org/abs/1910.07467, over the last dimension.
#pragma once

#include <cstdint>

#include "kernels/norm.h"
#include "model/layer.h"

namespace trainctl::model {

/// What an RMSNorm multiplies by: its weight, which starts at 1, or 1 + its weight, which starts at 0.
enum class NormScale { weight, one_plus_weight };

class RmsNorm final : public UnaryLayer {
 public:
  RmsNorm(std::int64_t size, double epsilon, NormScale scale = NormScale::weight);
  at::Tensor compute(const at::Tensor& input) override;  // [..., size]
  /// The residual connection before it, too.
  kernels::NormedSum add(const at::Tensor& residual, const at::Tensor& branch, kernels::NormedFor use);
  /// From now on each rank normalizes its own heads, so that the weight's gradient is a sum over the ranks.
  void use_for_heads_of(const TensorRanksPtr& ranks) { ranks_ = ranks; }

 private:
  kernels::NormParameters parameters() const;

  at::Tensor& weight_;  // [size]
  double epsilon_;
  NormScale scale_;
  TensorRanksPtr ranks_;
};

}  // namespace trainctl::model
