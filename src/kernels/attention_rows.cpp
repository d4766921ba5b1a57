#include "kernels/attention_rows.h"

#include <cmath>
#include <limits>

#include "kernels/vector_math.h"

namespace trainctl::kernels {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Sets all bits in the lanes of visible keys.
template <class V>
TRAINCTL_INLINE void seen_lanes(const SeenKeys& seen, std::int64_t begin, typename V::Ints& lanes) {
  const std::int64_t rest = seen.count - begin;
  for (int i = 0; i < V::kLanes; ++i) lanes[i] = i < rest && (seen.mask == nullptr || seen.mask[begin + i]) ? -1 : 0;
}

template <class V>
TRAINCTL_INLINE bool all_seen(const SeenKeys& seen, std::int64_t begin) {
  return seen.mask == nullptr && begin + V::kLanes <= seen.count;
}

struct Softmax {
  template <class V>
  TRAINCTL_INLINE static float run(float* scores, std::int64_t width, SeenKeys seen) {
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
    const float share = all == 0 ? 0.0F : static_cast<float>(1 / all);
    for (std::int64_t i = 0; i < width; i += V::kLanes) {
      load(scores + i, x);
      x *= share;
      store(x, scores + i);
    }
    return all == 0 ? std::numeric_limits<float>::infinity()
                    : static_cast<float>(static_cast<double>(shift) + std::log(all));
  }
};

struct SoftmaxGradient {
  template <class V>
  TRAINCTL_INLINE static void run(float* scores, float* gradients, std::int64_t width, SeenKeys seen, RowGradient row) {
    using Floats = typename V::Floats;
    Floats x;
    Floats g;
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
      g = y * (g - row.mean) * row.scale;
      store(y, scores + i);
      store(g, gradients + i);
    }
  }
};

struct Dot {
  template <class V>
  TRAINCTL_INLINE static float run(const float* a, const float* b, std::int64_t size) {
    typename V::Floats sums{};
    typename V::Floats x;
    typename V::Floats y;
    for (std::int64_t i = 0; i < size; i += V::kLanes) {
      load(a + i, x);
      load(b + i, y);
      sums += x * y;
    }
    return static_cast<float>(sum_of<V>(sums));
  }
};

}  // namespace

float softmax_row(float* scores, std::int64_t width, const SeenKeys& seen) {
  return vectorized<Softmax>(scores, width, seen);
}

void softmax_gradient_row(float* scores, float* gradients, std::int64_t width, const SeenKeys& seen,
                          const RowGradient& row) {
  vectorized<SoftmaxGradient>(scores, gradients, width, seen, row);
}

float dot(const float* a, const float* b, std::int64_t size) {
  return vectorized<Dot>(a, b, size);
}

}  // namespace trainctl::kernels
