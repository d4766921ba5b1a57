#include "model/layers/relative_position.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/where.h>

#include <cmath>

namespace trainctl::model {

at::Tensor bucket_numbers(const QueriesAndKeys& lengths, const RelativeBuckets& buckets, c10::Device device) {
  const auto ids = at::TensorOptions(device).dtype(at::kLong);
  const at::Tensor keys = at::arange(lengths.keys, ids).unsqueeze(0);
  const at::Tensor queries = at::arange(lengths.keys - lengths.queries, lengths.keys, ids).unsqueeze(1);
  const at::Tensor ahead = keys.sub(queries);  // how far the key is behind the query in the text
  const bool is_causal = buckets.causality == Causality::causal;
  const std::int64_t count = is_causal ? buckets.count : buckets.count / 2;
  const at::Tensor distance = is_causal ? ahead.neg().clamp_min(0) : ahead.abs();
  const std::int64_t num_exact = count / 2;
  const double scale = std::log(static_cast<double>(buckets.max_distance) / static_cast<double>(num_exact));
  // In float, operator by operator as transformers computes: distances lie exactly on the borders of ranges.
  const at::Tensor range = distance.clamp_min(1)
                               .to(at::kFloat)
                               .div(num_exact)
                               .log()
                               .div(scale)
                               .mul(count - num_exact)
                               .to(at::kLong)
                               .add(num_exact)
                               .clamp_max(count - 1);
  const at::Tensor numbers = at::where(distance.lt(num_exact), distance, range);
  return is_causal ? numbers : numbers.add(ahead.gt(0).to(at::kLong).mul(count));
}

at::Tensor position_bias(const at::Tensor& table, const at::Tensor& bucket_numbers) {
  return at::embedding(table, bucket_numbers).permute({2, 0, 1}).unsqueeze(0);
}

}  // namespace trainctl::model
