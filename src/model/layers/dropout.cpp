#include "model/layers/dropout.h"

#include <ATen/ops/dropout.h>

#include "kernels/dropout.h"
#include "kernels/portable.h"

namespace trainctl {

at::Tensor Dropout::compute(const at::Tensor& input) {
  if (probability_ == 0) return input;
  // In evaluation too: whoever loads the graph may train it.
  if (PortableOperators::are_wanted()) return at::dropout(input, probability_, is_training());
  if (!is_training()) return input;
  return dropout(input, probability_);
}

}  // namespace trainctl
