#include "model/layers/dropout.h"

#include "kernels/dropout.h"

namespace trainctl {

at::Tensor Dropout::compute(const at::Tensor& input) {
  if (!is_training() || probability_ == 0) return input;
  return dropout(input, probability_);
}

}  // namespace trainctl
