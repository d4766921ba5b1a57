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

/// Dropout of a row of probabilities: those whose word is below the threshold become 0, the others `factor` times.
struct RowDrops {
  const std::uint32_t* words;  // [width]; null: nothing is dropped
  std::uint32_t threshold;
  float factor;
};
/// Zeroes what is dropped. The factor is for the caller.
void drop_row(float* row, std::int64_t width, const RowDrops& drops);

struct RowGradient {
  float log_sum;
  float mean;  // Σ probability × its gradient
  float scale;
  RowDrops drops;
};
/// Scores become probabilities again, as dropout leaves them. The gradients of those become the gradients of scores
/// before they were scaled.
void softmax_gradient_row(float* scores, float* gradients, std::int64_t width, const SeenKeys& seen,
                          const RowGradient& row);

/// Rows of a tensor, of float or bf16.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;
  std::int64_t count;
};
/// Copies rows to dense ones of floats. Those of a tensor of all heads lie in a page of memory each, and in few sets
/// of the first cache.
template <class T>
void pack_rows(const Rows<const T>& rows, std::int64_t size, float* packed);
/// Copies rows so, and takes their inner products with other rows.
template <class T>
void pack_rows_with_dots(const Rows<const T>& rows, const Rows<const T>& others, std::int64_t size, float* packed,
                         float* dots);
/// Copies rows of floats, each multiplied by its factor, or by 1 if there are none. `rows` may be `from` itself.
template <class T>
void write_rows(const Rows<const float>& from, const float* factors, std::int64_t size, const Rows<T>& rows);

}  // namespace trainctl::kernels
