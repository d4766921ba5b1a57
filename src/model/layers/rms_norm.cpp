#include "model/layers/rms_norm.h"

#include "kernels/rms_norm.h"

namespace trainctl::model {

RmsNorm::RmsNorm(std::int64_t size, double epsilon, NormScale scale)
    : weight_(parameter("weight", {size}, Init::constant(scale == NormScale::weight ? 1 : 0))),
      epsilon_(epsilon),
      scale_(scale) {}

at::Tensor RmsNorm::compute(const at::Tensor& input) {
  // With shared tokens the gradients of all that is whole in a block are summed once: TensorDecl::sums_gradient.
  const at::Tensor weight = ranks_ != nullptr && !ranks_->shares_tokens ? use_in_parts(weight_, ranks_) : weight_;
  return kernels::rms_norm(input, scale_ == NormScale::weight ? weight : weight.add(1), epsilon_);
}

}  // namespace trainctl::model
