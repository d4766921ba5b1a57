#include "kernels/softmax_gradient.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "kernels/vector_math.h"

namespace trainctl {
namespace {

/// One row; returns its loss.
TRAINCTL_CLONES float row_gradient(float* row, std::int64_t size, std::int64_t target, float smoothing) {
  const std::int64_t whole = size / kLanes * kLanes;
  Floats largest = Floats{} - std::numeric_limits<float>::infinity();
  Floats sums{};
  Floats x;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    std::memcpy(&x, row + i, sizeof x);
    largest = largest < x ? x : largest;
    sums += x;
  }
  float peak = -std::numeric_limits<float>::infinity();
  double total = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    peak = std::max(peak, largest[lane]);
    total += static_cast<double>(sums[lane]);
  }
  for (std::int64_t i = whole; i < size; ++i) {
    peak = std::max(peak, row[i]);
    total += static_cast<double>(row[i]);
  }
  const float at_target = row[target];

  Floats mass{};
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    std::memcpy(&x, row + i, sizeof x);
    x -= peak;
    exponential(x);
    mass += x;
    std::memcpy(row + i, &x, sizeof x);
  }
  double all = 0;
  for (int lane = 0; lane < kLanes; ++lane) all += static_cast<double>(mass[lane]);
  for (std::int64_t i = whole; i < size; ++i) {
    row[i] = std::exp(row[i] - peak);
    all += static_cast<double>(row[i]);
  }

  const auto scale = static_cast<float>(1 / all);
  const float spread = smoothing / static_cast<float>(size);
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    std::memcpy(&x, row + i, sizeof x);
    x = x * scale - spread;
    std::memcpy(row + i, &x, sizeof x);
  }
  for (std::int64_t i = whole; i < size; ++i) row[i] = row[i] * scale - spread;
  row[target] -= 1 - smoothing;

  const double log_sum = static_cast<double>(peak) + std::log(all);
  const double expected = (1.0 - static_cast<double>(smoothing)) * static_cast<double>(at_target) +
                          static_cast<double>(smoothing) * total / static_cast<double>(size);
  return static_cast<float>(log_sum - expected);
}

}  // namespace

at::Tensor to_softmax_gradient(at::Tensor& logits, const at::Tensor& targets, double label_smoothing) {
  ensure(logits.device().is_cpu() && logits.scalar_type() == at::kFloat && logits.is_contiguous() && logits.dim() == 2,
         "to_softmax_gradient takes contiguous floats [R, V] on the CPU");
  at::Tensor losses = at::empty({logits.size(0)}, logits.options());
  const std::int64_t size = logits.size(1);
  const at::Tensor index = targets.contiguous();
  const auto* target = index.const_data_ptr<std::int64_t>();
  auto* row = logits.mutable_data_ptr<float>();
  auto* loss = losses.mutable_data_ptr<float>();
  at::parallel_for(0, logits.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      loss[r] = row_gradient(row + r * size, size, target[r], static_cast<float>(label_smoothing));
  });
  return losses;
}

}  // namespace trainctl
