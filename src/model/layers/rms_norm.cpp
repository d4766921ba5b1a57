#include "model/layers/rms_norm.h"

#include "kernels/rms_norm.h"

namespace trainctl::model {

RmsNorm::RmsNorm(std::int64_t size, double epsilon)
    : weight_(parameter("weight", {size}, Init::constant(1))), epsilon_(epsilon) {}

at::Tensor RmsNorm::compute(const at::Tensor& input) {
  return kernels::rms_norm(input, weight_, epsilon_);
}

}  // namespace trainctl::model
