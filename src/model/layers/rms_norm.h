// https://arxiv.org/abs/1910.07467, over the last dimension.
#pragma once

#include <cstdint>

#include "model/layer.h"

namespace trainctl::model {

class RmsNorm final : public UnaryLayer {
 public:
  RmsNorm(std::int64_t size, double epsilon);
  at::Tensor compute(const at::Tensor& input) override;  // [..., size]

 private:
  at::Tensor& weight_;  // [size]
  double epsilon_;
};

}  // namespace trainctl::model
