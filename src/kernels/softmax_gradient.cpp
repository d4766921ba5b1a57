#include "kernels/softmax_gradient.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <limits>

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
  template <class V>
  TRAINCTL_INLINE static void load_logits(const float* row, const float* bias, std::int64_t i,
                                          typename V::Floats& logits) {
    load(row + i, logits);
    if (bias == nullptr) return;
    typename V::Floats added;
    load(bias + i, added);
    logits += added;
  }

  /// Replaces the row by its gradient and returns its loss.
  template <class V>
  TRAINCTL_INLINE static float run(float* row, std::int64_t size, RowTarget target) {
    using Floats = typename V::Floats;
    const std::int64_t whole = size / V::kLanes * V::kLanes;
    if (target.bias != nullptr)
      for (std::int64_t i = whole; i < size; ++i) row[i] += target.bias[i];
    const float at_target =
        row[target.index] + (target.bias != nullptr && target.index < whole ? target.bias[target.index] : 0);
    Floats largest = Floats{} - std::numeric_limits<float>::infinity();
    Floats sums{};
    Floats x;
    for (std::int64_t i = 0; i < whole; i += V::kLanes) {
      load_logits<V>(row, target.bias, i, x);
      largest = largest < x ? x : largest;
      sums += x;
    }
    float peak = largest_of<V>(largest);
    double total = sum_of<V>(sums);
    for (std::int64_t i = whole; i < size; ++i) {
      peak = std::max(peak, row[i]);
      total += static_cast<double>(row[i]);
    }

    Floats mass{};
    for (std::int64_t i = 0; i < whole; i += V::kLanes) {
      load_logits<V>(row, target.bias, i, x);
      x -= peak;
      exponential<V>(x);
      mass += x;
      store(x, row + i);
    }
    double all = sum_of<V>(mass);
    for (std::int64_t i = whole; i < size; ++i) {
      row[i] = std::exp(row[i] - peak);
      all += static_cast<double>(row[i]);
    }

    const auto scale = static_cast<float>(1 / all);
    const float spread = target.smoothing / static_cast<float>(size);
    for (std::int64_t i = 0; i < whole; i += V::kLanes) {
      load(row + i, x);
      x = x * scale - spread;
      store(x, row + i);
    }
    for (std::int64_t i = whole; i < size; ++i) row[i] = row[i] * scale - spread;
    row[target.index] -= 1 - target.smoothing;

    const double log_sum = static_cast<double>(peak) + std::log(all);
    const auto smoothing = static_cast<double>(target.smoothing);
    const double expected =
        (1.0 - smoothing) * static_cast<double>(at_target) + smoothing * total / static_cast<double>(size);
    return static_cast<float>(log_sum - expected);
  }
};

}  // namespace

at::Tensor to_softmax_gradient(at::Tensor& logits, const at::Tensor& targets, double label_smoothing,
                               const at::Tensor& bias) {
  core::ensure(
      logits.device().is_cpu() && logits.scalar_type() == at::kFloat && logits.is_contiguous() && logits.dim() == 2,
      "to_softmax_gradient takes contiguous floats [R, V] on the CPU");
  at::Tensor losses = at::empty({logits.size(0)}, logits.options());
  const std::int64_t size = logits.size(1);
  const at::Tensor index = targets.contiguous();
  const at::Tensor added = bias.defined() ? bias.contiguous() : bias;
  core::ensure(!added.defined() || (added.scalar_type() == at::kFloat && added.numel() == size),
               "to_softmax_gradient takes a bias of floats [V]");
  if (runtime::is_fake(logits)) return losses;
  const auto* target = index.const_data_ptr<std::int64_t>();
  auto* row = logits.mutable_data_ptr<float>();
  auto* loss = losses.mutable_data_ptr<float>();
  const float* row_bias = added.defined() ? added.const_data_ptr<float>() : nullptr;
  at::parallel_for(0, logits.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      loss[r] = vectorized<SoftmaxRowGradient>(row + r * size, size,
                                               RowTarget{row_bias, target[r], static_cast<float>(label_smoothing)});
  });
  return losses;
}

}  // namespace trainctl::kernels
