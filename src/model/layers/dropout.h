// Zeroes elements with the given probability while training and scales the rest to keep the mean. Draws from the
// device's default generator, which the trainer seeds per micro-batch.
#pragma once

#include "model/layer.h"

namespace trainctl {

class Dropout final : public UnaryLayer {
 public:
  explicit Dropout(double probability) : probability_(probability) {}
  at::Tensor forward(const at::Tensor& input) override;

 private:
  double probability_;
};

}  // namespace trainctl
