// Stochastic depth (https://arxiv.org/abs/1603.09382): while training, zeroes whole samples with the given probability
// and scales the rest to keep the mean. Draws as Dropout does.
#pragma once

#include "model/layer.h"

namespace trainctl::model {

class DropPath final : public UnaryLayer {
 public:
  explicit DropPath(double probability) : probability_(probability) {}
  at::Tensor compute(const at::Tensor& input) override;  // [B, ...]

 private:
  double probability_;
};

}  // namespace trainctl::model
