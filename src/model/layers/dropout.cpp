#include "model/layers/dropout.h"

#include <ATen/ops/dropout.h>

namespace trainctl {

at::Tensor Dropout::forward(const at::Tensor& input) {
  if (!is_training() || probability_ == 0) return input;
  return at::dropout(input, probability_, /*train=*/true);
}

}  // namespace trainctl
