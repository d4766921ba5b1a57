// y = x W + b with W [in, out]: GPT-2's `Conv1D` in transformers, whose weights keep that layout.
#pragma once

#include <cstdint>

#include "model/layers/low_rank.h"

namespace trainctl::model {

class TransposedLinear final : public MatrixLayer {
 public:
  /// The bias starts at 0.
  TransposedLinear(std::int64_t in_features, std::int64_t out_features, Init weight);
  /// Returns the FLOPs of the forward pass of one token.
  double flops() const;

 protected:
  const at::Tensor& weight() const override { return weight_; }
  std::int64_t dim_of_outputs() const override { return 1; }
  const at::Tensor* bias() const override { return &bias_; }

 private:
  at::Tensor& weight_;  // [in, out]
  at::Tensor& bias_;    // [out]
};

}  // namespace trainctl::model
