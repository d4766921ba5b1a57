// Passes over tensors of floats or bf16, element by element, as vectors. For this folder alone.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "kernels/vector_math.h"

namespace trainctl::kernels {

/// What the loops take: others are left to LibTorch's operators.
inline bool is_plain(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  return tensor.is_cpu() && (type == at::kFloat || type == at::kBFloat16) && tensor.is_contiguous();
}

/// Calls range(begin, size) for all of `size` elements, in several threads. Ranges begin at whole vectors, so the
/// elements of a vector don't depend on the number of threads.
template <class Range>
void over_ranges(std::int64_t size, const Range& range) {
  constexpr std::int64_t kGrain = 1024;  // vectors
  at::parallel_for(0, (size + kMaxLanes - 1) / kMaxLanes, kGrain, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t begin = first * kMaxLanes;
    range(begin, std::min(last * kMaxLanes, size) - begin);
  });
}

/// 1 / (1 + exp(-x)), about 2e-7 relative.
template <class V>
TRAINCTL_INLINE void sigmoid(typename V::Floats& x) {
  using Floats = typename V::Floats;
  x = -x;
  const Floats most = Floats{} + 87.0F;
  x = x > most ? most : x;
  exponential<V>(x);
  x = 1.0F / (1.0F + x);
}

}  // namespace trainctl::kernels
