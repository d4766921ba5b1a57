// y = x Wᵀ + b, with PyTorch's names and initialisation: uniform in ±1/√in_features.
#pragma once

#include <cstdint>

#include "model/layer.h"

namespace trainctl {

class Linear final : public UnaryLayer {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features);
  at::Tensor forward(const at::Tensor& input) override;  // [B, in] -> [B, out]
  /// Of one sample.
  double flops() const;

 private:
  at::Tensor& weight_;  // [out, in]
  at::Tensor& bias_;    // [out]
};

}  // namespace trainctl
