#include "model/layers/rms_norm.h"

namespace trainctl::model {

RmsNorm::RmsNorm(std::int64_t size, double epsilon, NormScale scale)
    : weight_(parameter("weight", {size}, Init::constant(scale == NormScale::weight ? 1 : 0))),
      epsilon_(epsilon),
      scale_(scale) {}

at::Tensor RmsNorm::compute(const at::Tensor& input) {
  return kernels::norm(input, parameters());
}

kernels::NormedSum RmsNorm::add(const at::Tensor& residual, const at::Tensor& branch, kernels::NormedFor use) {
  if (is_replaced()) {
    const at::Tensor sum = residual.add(branch);
    return {.sum = sum, .normed = forward(sum)};
  }
  const LayerSpan span(*this);
  return kernels::add_norm(residual, branch, parameters(), use);
}

kernels::NormParameters RmsNorm::parameters() const {
  // With shared tokens the gradients of all that is whole in a block are summed once: TensorDecl::sums_gradient.
  const at::Tensor weight = ranks_ != nullptr && !ranks_->shares_tokens ? use_in_parts(weight_, ranks_) : weight_;
  return {.weight = scale_ == NormScale::weight ? weight : weight.add(1), .epsilon = epsilon_};
}

}  // namespace trainctl::model
