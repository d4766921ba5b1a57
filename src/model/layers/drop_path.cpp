#include "model/layers/drop_path.h"

#include <ATen/ops/ones.h>

#include "kernels/dropout.h"

namespace trainctl::model {

at::Tensor DropPath::compute(const at::Tensor& input) {
  if (!is_training() || probability_ == 0) return input;
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[0] = input.size(0);
  return input.mul(kernels::dropout(at::ones(shape, input.options()), probability_));
}

}  // namespace trainctl::model
