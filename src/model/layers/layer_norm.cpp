#include "model/layers/layer_norm.h"

#include <ATen/ops/layer_norm.h>

namespace trainctl::model {

LayerNorm::LayerNorm(std::int64_t size, double epsilon)
    : weight_(parameter("weight", {size}, Init::constant(1))),
      bias_(parameter("bias", {size}, Init::constant(0))),
      size_(size),
      epsilon_(epsilon) {}

at::Tensor LayerNorm::compute(const at::Tensor& input) {
  return at::layer_norm(input, {size_}, weight_, bias_, epsilon_);
}

}  // namespace trainctl::model
