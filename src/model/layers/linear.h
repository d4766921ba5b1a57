// y = x Wᵀ + b.
#pragma once

#include <cstdint>

#include "model/layers/bias.h"
#include "model/layers/low_rank.h"

namespace trainctl::model {

class Linear final : public MatrixLayer {
 public:
  /// PyTorch's initialisation: uniform in ±1/√in_features.
  Linear(std::int64_t in_features, std::int64_t out_features, Bias bias = Bias::learned);
  /// The bias starts at 0.
  Linear(std::int64_t in_features, std::int64_t out_features, Init weight, Bias bias = Bias::learned);
  /// Returns the FLOPs of the forward pass of one sample (or token).
  double flops() const;

 protected:
  const at::Tensor& weight() const override { return weight_; }
  std::int64_t dim_of_outputs() const override { return 0; }
  const at::Tensor* bias() const override { return bias_; }

 private:
  at::Tensor& weight_;  // [out, in]
  at::Tensor* bias_;    // [out], or null
};

}  // namespace trainctl::model
