// Relative positions of T5 (https://arxiv.org/abs/1910.10683): a learned number for each head and each bucket of
// distances, added to the scores of attention.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/sequence.h"

namespace trainctl::model {

struct RelativeBuckets {
  std::int64_t count = 32;
  std::int64_t max_distance = 128;
  Causality causality = Causality::causal;  // bidirectional: half of the buckets are for later keys
};

/// Queries are the last of the keys.
struct QueriesAndKeys {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
};

/// Returns the bucket of each query's distance from each key: int64 [queries, keys]. Small distances have buckets of
/// their own; the ranges of the others grow with the logarithm. Mesh TensorFlow's rule, with transformers' operators.
at::Tensor bucket_numbers(const QueriesAndKeys& lengths, const RelativeBuckets& buckets, c10::Device device);

/// Returns what is added to scores: [1, H, queries, keys]. `table` [buckets, H].
at::Tensor position_bias(const at::Tensor& table, const at::Tensor& bucket_numbers);

}  // namespace trainctl::model
