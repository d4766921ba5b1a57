// What happens to a query's row of scores. For this folder alone.
#pragma once

#include <cstdint>

namespace trainctl::kernels {

struct SeenKeys {
  std::int64_t count;  // the first so many
  const bool* mask;    // [count], of these only where true; or null
};

/// Scores become probabilities in place, zeros (in all `width` places) where nothing is seen. Gives the logarithm of
/// the sum of their exponentials. `width` is a multiple of kMaxLanes.
float softmax_row(float* scores, std::int64_t width, const SeenKeys& seen);

struct RowGradient {
  float log_sum;
  float mean;  // Σ probability × its gradient
  float scale;
};
/// Scores become probabilities again, and the gradients of probabilities those of scores before they were scaled.
void softmax_gradient_row(float* scores, float* gradients, std::int64_t width, const SeenKeys& seen,
                          const RowGradient& row);

/// Σ a b of `size` values, a multiple of kMaxLanes.
float dot(const float* a, const float* b, std::int64_t size);

}  // namespace trainctl::kernels
