#include "train/loop/gradient_factor.h"

#include "optimizer/optimizer.h"

namespace trainctl::train {

void GradientFactor::multiply(const at::Tensor& by) {
  if (when_ == When::at_once) {
    if (by.is_cpu() && by.item<double>() == 1) return;
    optimizer::scale(gradients_, by);
  } else {
    left_ = left_.defined() ? left_.mul(by.to(left_.device())) : by;
  }
}

at::Tensor GradientFactor::of_norm(const at::Tensor& norm) const {
  return left_.defined() ? norm.mul(left_.to(norm.device())).to(norm.scalar_type()) : norm;
}

}  // namespace trainctl::train
