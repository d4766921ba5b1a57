// What happens to a query's row of scores. For this folder alone.
#pragma once

#include <cstdint>

namespace trainctl::kernels {

struct SeenKeys {
  std::int64_t count;  // the first so many
  const bool* mask;    // [count], of these only where true; or null
};

/// What turns exp(score - largest) into a probability.
struct RowMass {
  float largest;  // of the scores; 0 where nothing is seen
  float sum;      // of the exponentials
};
/// Scores become exp(score - largest) in place, zeros (in all `width` places) where nothing is seen. `width` is a
/// multiple of kMaxLanes, as all sizes here.
RowMass softmax_row(float* scores, std::int64_t width, const SeenKeys& seen);

struct RowGradient {
  float log_sum;
  float mean;  // Σ probability × its gradient
  float scale;
};
/// Scores become probabilities again, and the gradients of probabilities those of scores before they were scaled.
void softmax_gradient_row(float* scores, float* gradients, std::int64_t width, const SeenKeys& seen,
                          const RowGradient& row);

/// row *= factor
void scale_row(float* row, std::int64_t size, float factor);

struct Rows {
  const float* data;
  std::int64_t stride;
  std::int64_t count;
};
/// Copies rows to dense ones. Those of a tensor of all heads lie in a page of memory each, and in few sets of the
/// first cache.
void pack_rows(const Rows& rows, std::int64_t size, float* packed);
/// Copies rows so, and takes their inner products with other rows.
void pack_rows_with_dots(const Rows& rows, const Rows& others, std::int64_t size, float* packed, float* dots);

}  // namespace trainctl::kernels
