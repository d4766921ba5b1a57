#include "model/layers/dropout.h"

#include <ATen/ops/dropout.h>

#include "kernels/dropout.h"
#include "kernels/portable.h"

namespace trainctl::model {

at::Tensor Dropout::compute(const at::Tensor& input) {
  if (probability_ == 0) return input;
  // Kept in evaluation too, since the exported graph may be trained.
  if (kernels::PortableOperators::are_wanted()) return at::dropout(input, probability_, is_training());
  if (!is_training()) return input;
  return kernels::dropout(input, probability_);
}

at::Tensor Dropout::forward_part(const at::Tensor& part, std::int64_t features, const TensorRanksPtr& ranks) {
  if (ranks == nullptr) return forward(part);
  if (probability_ == 0 || !is_training()) return part;
  const FeatureRange range = range_of(features, *ranks);
  return kernels::dropout(part, probability_, {.length = range.size, .distance = features, .first = range.begin});
}

}  // namespace trainctl::model
