#include "kernels/attention_rows.h"

#include <cmath>
#include <limits>

#include "kernels/drop_words.h"
#include "kernels/vector_math.h"

namespace trainctl::kernels {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Sets all bits in the lanes of visible keys.
template <class V>
TRAINCTL_INLINE void seen_lanes(const SeenKeys& seen, std::int64_t begin, typename V::Ints& lanes) {
  const auto rest = static_cast<std::int32_t>(seen.count - begin);
  for (int i = 0; i < V::kLanes; ++i) lanes[i] = i;
  lanes = (lanes - rest) >> 31;
  if (seen.mask == nullptr) return;
  for (int i = 0; i < V::kLanes; ++i) lanes[i] = i < rest && seen.mask[begin + i] ? -1 : 0;
}

template <class V>
TRAINCTL_INLINE bool all_seen(const SeenKeys& seen, std::int64_t begin) {
  return seen.mask == nullptr && begin + V::kLanes <= seen.count;
}

struct Softmax {
  template <class V>
  TRAINCTL_INLINE static RowMass run(float* scores, std::int64_t width, SeenKeys seen) {
    using Floats = typename V::Floats;
    const Floats never = Floats{} + kNever;
    Floats largest = never;
    Floats x;
    typename V::Ints lanes;
    for (std::int64_t i = 0; i < width; i += V::kLanes) {
      load(scores + i, x);
      if (!all_seen<V>(seen, i)) {
        seen_lanes<V>(seen, i, lanes);
        x = lanes ? x : never;
        store(x, scores + i);
      }
      largest = largest < x ? x : largest;
    }
    const float peak = largest_of<V>(largest);
    const float shift = peak == kNever ? 0 : peak;

    Floats mass{};
    for (std::int64_t i = 0; i < width; i += V::kLanes) {
      load(scores + i, x);
      Floats y = x - shift;
      exponential<V>(y);
      y = x == never ? Floats{} : y;
      mass += y;
      store(y, scores + i);
    }
    const double all = sum_of<V>(mass);
    return {.largest = shift, .sum = static_cast<float>(all)};
  }
};

struct Drop {
  template <class V>
  TRAINCTL_INLINE static void run(float* row, std::int64_t width, RowDrops drops) {
    typename V::Floats x;
    typename V::Floats factors;
    for (std::int64_t i = 0; i < width; i += V::kLanes) {
      load(row + i, x);
      drop_factors<V>(drops.words + i, drops.threshold, 1, factors);
      x *= factors;
      store(x, row + i);
    }
  }
};

struct SoftmaxGradient {
  template <class V>
  TRAINCTL_INLINE static void run(float* scores, float* gradients, std::int64_t width, SeenKeys seen, RowGradient row) {
    using Floats = typename V::Floats;
    Floats x;
    Floats g;
    Floats factors;
    typename V::Ints lanes;
    for (std::int64_t i = 0; i < width; i += V::kLanes) {
      load(scores + i, x);
      load(gradients + i, g);
      Floats y = x - row.log_sum;
      exponential<V>(y);
      if (!all_seen<V>(seen, i)) {
        seen_lanes<V>(seen, i, lanes);
        y = lanes ? y : Floats{};
      }
      if (row.drops.words != nullptr) {
        drop_factors<V>(row.drops.words + i, row.drops.threshold, row.drops.factor, factors);
        g *= factors;
      }
      g = y * (g - row.mean) * row.scale;
      if (row.drops.words != nullptr) y *= factors;
      store(y, scores + i);
      store(g, gradients + i);
    }
  }
};

struct Pack {
  template <class V, class T>
  TRAINCTL_INLINE static void run(Rows<const T> rows, std::int64_t size, float* packed) {
    typename V::Floats x;
    for (std::int64_t t = 0; t < rows.count; ++t)
      for (std::int64_t i = 0; i < size; i += V::kLanes) {
        load(rows.data + t * rows.stride + i, x);
        store(x, packed + t * size + i);
      }
  }
};

struct PackWithDots {
  template <class V, class T>
  TRAINCTL_INLINE static void run(Rows<const T> rows, Rows<const T> others, std::int64_t size, float* packed,
                                  float* dots) {
    typename V::Floats x;
    typename V::Floats y;
    for (std::int64_t t = 0; t < rows.count; ++t) {
      typename V::Floats sums{};
      for (std::int64_t i = 0; i < size; i += V::kLanes) {
        load(rows.data + t * rows.stride + i, x);
        load(others.data + t * others.stride + i, y);
        sums += x * y;
        store(x, packed + t * size + i);
      }
      dots[t] = static_cast<float>(sum_of<V>(sums));
    }
  }
};

struct Write {
  template <class V, class T>
  TRAINCTL_INLINE static void run(Rows<const float> from, const float* factors, std::int64_t size, Rows<T> rows) {
    typename V::Floats x;
    for (std::int64_t t = 0; t < rows.count; ++t) {
      const float factor = factors != nullptr ? factors[t] : 1;
      for (std::int64_t i = 0; i < size; i += V::kLanes) {
        load(from.data + t * from.stride + i, x);
        x *= factor;
        store(x, rows.data + t * rows.stride + i);
      }
    }
  }
};

}  // namespace

RowMass softmax_row(float* scores, std::int64_t width, const SeenKeys& seen) {
  return vectorized<Softmax>(scores, width, seen);
}

void drop_row(float* row, std::int64_t width, const RowDrops& drops) {
  vectorized<Drop>(row, width, drops);
}

void softmax_gradient_row(float* scores, float* gradients, std::int64_t width, const SeenKeys& seen,
                          const RowGradient& row) {
  vectorized<SoftmaxGradient>(scores, gradients, width, seen, row);
}

template <class T>
void pack_rows(const Rows<const T>& rows, std::int64_t size, float* packed) {
  vectorized<Pack>(rows, size, packed);
}
template <class T>
void pack_rows_with_dots(const Rows<const T>& rows, const Rows<const T>& others, std::int64_t size, float* packed,
                         float* dots) {
  vectorized<PackWithDots>(rows, others, size, packed, dots);
}
template <class T>
void write_rows(const Rows<const float>& from, const float* factors, std::int64_t size, const Rows<T>& rows) {
  vectorized<Write>(from, factors, size, rows);
}

template void pack_rows(const Rows<const float>&, std::int64_t, float*);
template void pack_rows(const Rows<const at::BFloat16>&, std::int64_t, float*);
template void pack_rows_with_dots(const Rows<const float>&, const Rows<const float>&, std::int64_t, float*, float*);
template void pack_rows_with_dots(const Rows<const at::BFloat16>&, const Rows<const at::BFloat16>&, std::int64_t,
                                  float*, float*);
template void write_rows(const Rows<const float>&, const float*, std::int64_t, const Rows<float>&);
template void write_rows(const Rows<const float>&, const float*, std::int64_t, const Rows<at::BFloat16>&);

}  // namespace trainctl::kernels
