#include "kernels/softmax_gradient.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "kernels/vector_math.h"
#include "runtime/fake_tensor.h"

namespace trainctl::kernels {
namespace {

/// What a row of logits is compared with.
struct RowTarget {
  const float* bias;  // [V], added to the logits; or null
  std::int64_t index;
  float smoothing;
};

struct SoftmaxRowGradient {
  template <class V, class T>
  TRAINCTL_INLINE static void load_logits(const T* row, const float* bias, std::int64_t i, std::int64_t count,
                                          typename V::Floats& logits) {
    load_some(row + i, count, logits);
    if (bias == nullptr) return;
    typename V::Floats added;
    load_some(bias + i, count, added);
    logits += added;
  }

  /// Replaces the row by its gradient and returns its loss. `exponentials` has room for the row, or is the row.
  template <class V, class T>
  TRAINCTL_INLINE static float run(T* row, float* exponentials, std::int64_t size, RowTarget target) {
    using Floats = typename V::Floats;
    const std::int64_t whole = size / V::kLanes * V::kLanes, rest = size - whole;
    const float at_target =
        static_cast<float>(row[target.index]) + (target.bias != nullptr ? target.bias[target.index] : 0);
    const Floats least = Floats{} - std::numeric_limits<float>::infinity();
    Floats largest = least;
    Floats sums{};
    Floats x;
    for (std::int64_t i = 0; i < whole; i += V::kLanes) {
      load_logits<V>(row, target.bias, i, V::kLanes, x);
      largest = largest < x ? x : largest;
      sums += x;
    }
    float peak = largest_of<V>(largest);
    double total = sum_of<V>(sums);
    load_logits<V>(row, target.bias, whole, rest, x);
    for (std::int64_t i = 0; i < rest; ++i) {
      peak = std::max(peak, x[i]);
      total += static_cast<double>(x[i]);
    }

    Floats mass{};
    for (std::int64_t i = 0; i < whole; i += V::kLanes) {
      load_logits<V>(row, target.bias, i, V::kLanes, x);
      x -= peak;
      exponential<V>(x);
      mass += x;
      store(x, exponentials + i);
    }
    double all = sum_of<V>(mass);
    load_logits<V>(row, target.bias, whole, rest, x);
    for (std::int64_t i = 0; i < rest; ++i) {
      exponentials[whole + i] = std::exp(x[i] - peak);
      all += static_cast<double>(exponentials[whole + i]);
    }

    // The target's own gradient comes from floats: in bf16, a probability near 1 less 1 would be rounding alone.
    const float mass_at_target = exponentials[target.index];
    const auto scale = static_cast<float>(1 / all);
    const float spread = target.smoothing / static_cast<float>(size);
    for (std::int64_t i = 0; i < whole; i += V::kLanes) {
      load(exponentials + i, x);
      x = x * scale - spread;
      store(x, row + i);
    }
    for (std::int64_t i = whole; i < size; ++i) row[i] = static_cast<T>(exponentials[i] * scale - spread);
    row[target.index] = static_cast<T>(mass_at_target * scale - spread - (1 - target.smoothing));

    const double log_sum = static_cast<double>(peak) + std::log(all);
    const auto smoothing = static_cast<double>(target.smoothing);
    const double expected =
        (1.0 - smoothing) * static_cast<double>(at_target) + smoothing * total / static_cast<double>(size);
    return static_cast<float>(log_sum - expected);
  }
};

template <class T>
void differentiate_logits(at::Tensor& logits, const at::Tensor& targets, double label_smoothing, const at::Tensor& bias,
                          at::Tensor& losses) {
  const std::int64_t size = logits.size(1);
  const auto* target = targets.const_data_ptr<std::int64_t>();
  T* row = logits.mutable_data_ptr<T>();
  auto* loss = losses.mutable_data_ptr<float>();
  const float* added = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  at::parallel_for(0, logits.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> room(std::is_same_v<T, float> ? 0 : static_cast<std::size_t>(size));
    for (std::int64_t r = begin; r < end; ++r) {
      float* exponentials = room.data();
      if constexpr (std::is_same_v<T, float>) exponentials = row + r * size;
      loss[r] = vectorized<SoftmaxRowGradient>(row + r * size, exponentials, size,
                                               RowTarget{added, target[r], static_cast<float>(label_smoothing)});
    }
  });
}

}  // namespace

at::Tensor to_softmax_gradient(at::Tensor& logits, const at::Tensor& targets, double label_smoothing,
                               const at::Tensor& bias) {
  const bool is_float = logits.scalar_type() == at::kFloat;
  core::ensure(logits.device().is_cpu() && (is_float || logits.scalar_type() == at::kBFloat16) &&
                   logits.is_contiguous() && logits.dim() == 2,
               "to_softmax_gradient takes contiguous floats or bf16 [R, V] on the CPU");
  at::Tensor losses = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  const at::Tensor index = targets.contiguous();
  const at::Tensor added = bias.defined() ? bias.contiguous() : bias;
  core::ensure(!added.defined() || (added.scalar_type() == at::kFloat && added.numel() == logits.size(1)),
               "to_softmax_gradient takes a bias of floats [V]");
  if (runtime::is_fake(logits)) return losses;
  is_float ? differentiate_logits<float>(logits, index, label_smoothing, added, losses)
           : differentiate_logits<at::BFloat16>(logits, index, label_smoothing, added, losses);
  return losses;
}

}  // namespace trainctl::kernels
