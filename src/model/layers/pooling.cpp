#include "model/layers/pooling.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/amax.h>

#include "kernels/max_pool.h"

namespace trainctl::model {

at::Tensor relu_of_max_pool_2x2(const at::Tensor& input) {
  return kernels::relu_of_max_pool(input, kernels::kPool2x2);
}

ImageShape max_pool_2x2_shape(const ImageShape& input) {
  return {.channels = input.channels, .height = input.height / 2, .width = input.width / 2};
}

at::Tensor relu_of_max_pool_3x3_stride2(const at::Tensor& input) {
  return kernels::relu_of_max_pool(input, kernels::kPool3x3);
}

ImageShape max_pool_3x3_stride2_shape(const ImageShape& input) {
  return {.channels = input.channels, .height = (input.height - 1) / 2 + 1, .width = (input.width - 1) / 2 + 1};
}

at::Tensor global_average_pool(const at::Tensor& input) {
  return at::adaptive_avg_pool2d(input, {1, 1}).flatten(1);
}

at::Tensor mean_of_tokens(const at::Tensor& hidden, const at::Tensor& key_mask) {
  if (!key_mask.defined()) return hidden.mean(1);
  const at::Tensor weights = key_mask.unsqueeze(2).to(hidden.scalar_type());
  return hidden.mul(weights).sum(1).div(weights.sum(1).clamp_min(1));
}

at::Tensor max_of_tokens(const at::Tensor& hidden, const at::Tensor& key_mask) {
  // sentence-transformers takes the same small number; half precision has none like it.
  const double lowest = hidden.scalar_type() == at::kHalf ? -6e4 : -1e9;
  const at::Tensor seen = key_mask.defined() ? hidden.masked_fill(key_mask.logical_not().unsqueeze(2), lowest) : hidden;
  return seen.amax(1);
}

at::Tensor unit_length(const at::Tensor& rows) {
  constexpr double kShortest = 1e-12;  // of torch.nn.functional.normalize
  return rows.div(rows.mul(rows).sum(1, /*keepdim=*/true).clamp_min(kShortest * kShortest).sqrt());
}

}  // namespace trainctl::model
