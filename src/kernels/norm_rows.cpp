#include "kernels/norm_rows.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/vector_math.h"

namespace trainctl::kernels {
namespace {

/// Rows from `first` to `end`.
struct NormForward {
  template <class V, class Branch, class Normed>
  TRAINCTL_INLINE static void run(const NormRows<Branch, Normed>* rows, std::int64_t first, std::int64_t end) {
    for (std::int64_t row = first; row < end; ++row) {
      rows->bias != nullptr ? normalize_row<V, true>(*rows, row) : normalize_row<V, false>(*rows, row);
    }
  }

 private:
  template <class V, bool kCenters, class Branch, class Normed>
  TRAINCTL_INLINE static void normalize_row(const NormRows<Branch, Normed>& in, std::int64_t row) {
    const std::int64_t size = in.size;
    const float* values = nullptr;
    if constexpr (std::is_same_v<Branch, float>) values = in.branch + row * size;
    if (in.residual != nullptr) {
      float* sums = in.sum + row * size;
      add<V>(in.residual + row * size, in.branch + row * size, sums, size);
      values = sums;
    }
    float mean = 0;
    if constexpr (kCenters) {
      mean = static_cast<float>(sum_row<V, 1>(values, 0, size) / static_cast<double>(size));
      in.means[row] = mean;
    }
    const double square = sum_row<V, 2>(values, mean, size) / static_cast<double>(size);
    const auto scale = static_cast<float>(1 / std::sqrt(square + static_cast<double>(in.epsilon)));
    in.scales[row] = scale;
    Normed* normed = in.normed + row * size;
    std::int64_t i = 0;
    typename V::Floats x;
    typename V::Floats factors;
    typename V::Floats shifts;
    for (; i + V::kLanes <= size; i += V::kLanes) {
      load(values + i, x);
      load(in.weight + i, factors);
      x = (x - mean) * scale * factors;
      if constexpr (kCenters) {
        load(in.bias + i, shifts);
        x += shifts;
      }
      store(x, normed + i);
    }
    for (; i < size; ++i) {
      const float value = (values[i] - mean) * scale * in.weight[i];
      normed[i] = static_cast<Normed>(kCenters ? value + in.bias[i] : value);
    }
  }

  template <class V, class Right>
  TRAINCTL_INLINE static void add(const float* left, const Right* right, float* sums, std::int64_t size) {
    std::int64_t i = 0;
    typename V::Floats x;
    typename V::Floats y;
    for (; i + V::kLanes <= size; i += V::kLanes) {
      load(left + i, x);
      load(right + i, y);
      x += y;
      store(x, sums + i);
    }
    for (; i < size; ++i) sums[i] = left[i] + static_cast<float>(right[i]);
  }

  /// Σ (value - mean)^kPower.
  template <class V, int kPower>
  TRAINCTL_INLINE static double sum_row(const float* values, float mean, std::int64_t size) {
    typename V::Floats x;
    typename V::Floats y;
    typename V::Floats even = typename V::Floats{};
    typename V::Floats odd = typename V::Floats{};
    std::int64_t i = 0;
    for (; i + 2 * V::kLanes <= size; i += 2 * V::kLanes) {
      load(values + i, x);
      load(values + i + V::kLanes, y);
      x -= mean;
      y -= mean;
      even += kPower == 1 ? x : x * x;
      odd += kPower == 1 ? y : y * y;
    }
    even += odd;
    double total = sum_of<V>(even);
    for (; i < size; ++i) {
      const float value = values[i] - mean;
      total += static_cast<double>(kPower == 1 ? value : value * value);
    }
    return total;
  }
};

/// With x̂ = (sum - mean) · scale and h = normed_gradient · weight:
/// gradient = scale · (h - mean(h) - x̂ · mean(h · x̂)) + sum_gradient, without mean(h) for rms.
struct NormBackward {
  template <class V, class Branch, class Normed>
  TRAINCTL_INLINE static void run(const NormRowGradients<Branch, Normed>* rows, std::int64_t slice) {
    const std::int64_t first = slice * rows->count / kNormSlices;
    const std::int64_t end = (slice + 1) * rows->count / kNormSlices;
    float* weight_sums = rows->weight_sums + slice * rows->size;
    std::fill_n(weight_sums, rows->size, 0.0F);
    if (rows->means != nullptr) std::fill_n(rows->bias_sums + slice * rows->size, rows->size, 0.0F);
    for (std::int64_t row = first; row < end; ++row) {
      if (rows->means != nullptr)
        differentiate_row<V, true>(*rows, row, weight_sums, rows->bias_sums + slice * rows->size);
      else
        differentiate_row<V, false>(*rows, row, weight_sums, nullptr);
    }
  }

 private:
  template <class V, bool kCenters, class Branch, class Normed>
  TRAINCTL_INLINE static void differentiate_row(const NormRowGradients<Branch, Normed>& in, std::int64_t row,
                                                float* weight_sums, float* bias_sums) {
    using Floats = typename V::Floats;
    const std::int64_t size = in.size;
    const Normed* incoming = in.normed_gradient + row * size;
    const float* values = in.sum + row * size;
    const float mean = kCenters ? in.means[row] : 0;
    const float scale = in.scales[row];
    Floats along_sums = Floats{};
    Floats shift_sums = Floats{};
    Floats g;
    Floats x;
    Floats w;
    Floats sums;
    std::int64_t i = 0;
    for (; i + V::kLanes <= size; i += V::kLanes) {
      load(incoming + i, g);
      load(values + i, x);
      load(in.weight + i, w);
      x = (x - mean) * scale;
      load(weight_sums + i, sums);
      sums += g * x;
      store(sums, weight_sums + i);
      if constexpr (kCenters) {
        load(bias_sums + i, sums);
        sums += g;
        store(sums, bias_sums + i);
        shift_sums += g * w;
      }
      along_sums += g * w * x;
    }
    double along = sum_of<V>(along_sums);
    double shift = sum_of<V>(shift_sums);
    for (; i < size; ++i) {
      const float normal = (values[i] - mean) * scale, one = static_cast<float>(incoming[i]);
      weight_sums[i] += one * normal;
      if constexpr (kCenters) {
        bias_sums[i] += one;
        shift += static_cast<double>(one * in.weight[i]);
      }
      along += static_cast<double>(one * in.weight[i] * normal);
    }
    write_row<V>(in, row, mean, static_cast<float>(along / static_cast<double>(size)),
                 static_cast<float>(shift / static_cast<double>(size)));
  }

  template <class V, class Branch, class Normed>
  TRAINCTL_INLINE static void write_row(const NormRowGradients<Branch, Normed>& in, std::int64_t row, float mean,
                                        float along, float shift) {
    const std::int64_t first = row * in.size;
    const float scale = in.scales[row];
    typename V::Floats g;
    typename V::Floats x;
    typename V::Floats w;
    std::int64_t i = 0;
    for (; i + V::kLanes <= in.size; i += V::kLanes) {
      load(in.normed_gradient + first + i, g);
      load(in.sum + first + i, x);
      load(in.weight + i, w);
      g = scale * (g * w - shift - (x - mean) * scale * along);
      if (in.sum_gradient != nullptr) {
        load(in.sum_gradient + first + i, x);
        g += x;
      }
      store(g, in.gradient + first + i);
      if (in.branch_gradient != nullptr) store(g, in.branch_gradient + first + i);
    }
    for (; i < in.size; ++i) {
      const float normal = (in.sum[first + i] - mean) * scale;
      float value = scale * (static_cast<float>(in.normed_gradient[first + i]) * in.weight[i] - shift - normal * along);
      if (in.sum_gradient != nullptr) value += in.sum_gradient[first + i];
      in.gradient[first + i] = value;
      if (in.branch_gradient != nullptr) in.branch_gradient[first + i] = static_cast<Branch>(value);
    }
  }
};

}  // namespace

template <class Branch, class Normed>
void normalize_rows(const NormRows<Branch, Normed>& rows) {
  at::parallel_for(0, rows.count, std::max<std::int64_t>(1, 16384 / rows.size),
                   [&](std::int64_t begin, std::int64_t end) { vectorized<NormForward>(&rows, begin, end); });
}
template void normalize_rows(const NormRows<float, float>& rows);
template void normalize_rows(const NormRows<at::BFloat16, float>& rows);
template void normalize_rows(const NormRows<at::BFloat16, at::BFloat16>& rows);

template <class Branch, class Normed>
void differentiate_rows(const NormRowGradients<Branch, Normed>& rows) {
  at::parallel_for(0, kNormSlices, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t slice = first; slice < last; ++slice) vectorized<NormBackward>(&rows, slice);
  });
}
template void differentiate_rows(const NormRowGradients<float, float>& rows);
template void differentiate_rows(const NormRowGradients<at::BFloat16, float>& rows);
template void differentiate_rows(const NormRowGradients<at::BFloat16, at::BFloat16>& rows);

}  // namespace trainctl::kernels
