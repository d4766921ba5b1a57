#include "model/layers/layer_norm.h"

namespace trainctl::model {

LayerNorm::LayerNorm(std::int64_t size, double epsilon)
    : weight_(parameter("weight", {size}, Init::constant(1))),
      bias_(parameter("bias", {size}, Init::constant(0))),
      epsilon_(epsilon) {}

at::Tensor LayerNorm::compute(const at::Tensor& input) {
  return kernels::norm(input, {.weight = weight_, .bias = bias_, .epsilon = epsilon_});
}

kernels::NormedSum LayerNorm::add(const at::Tensor& residual, const at::Tensor& branch, kernels::NormedFor use) {
  if (is_replaced()) {
    const at::Tensor sum = residual.add(branch);
    return {.sum = sum, .normed = forward(sum)};
  }
  const LayerSpan span(*this);
  return kernels::add_norm(residual, branch, {.weight = weight_, .bias = bias_, .epsilon = epsilon_}, use);
}

}  // namespace trainctl::model
