#include "kernels/adam.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/cuda_grid.h"
#include "kernels/device/operators.h"
#include "kernels/vector_math.h"
#include "runtime/fake_tensor.h"

namespace trainctl::kernels {
namespace {

using device::AdamCoefficients;
using device::AdamTensor;
using MaybeTensor = std::optional<at::Tensor>;

/// A stretch of a tensor, with the coefficients of the tensor.
struct AdamPiece {
  AdamTensor tensor;
  AdamCoefficients by;
};

AdamTensor stretch_of(AdamTensor tensor, std::int64_t begin, std::int64_t size) {
  tensor.parameter += begin;
  tensor.gradient += begin;
  tensor.average += begin;
  tensor.square += begin;
  if (tensor.largest != nullptr) tensor.largest += begin;
  if (tensor.smoothed != nullptr) tensor.smoothed += begin;
  tensor.size = size;
  return tensor;
}

struct AdamLoop {
  /// The compiler makes vectors of as many elements as the machine's registers hold.
  template <class V>
  TRAINCTL_INLINE static void run(const AdamPiece* piece) {
    if (piece->tensor.largest != nullptr)
      piece->tensor.smoothed != nullptr ? update<true, true>(*piece) : update<true, false>(*piece);
    else
      piece->tensor.smoothed != nullptr ? update<false, true>(*piece) : update<false, false>(*piece);
  }

 private:
  template <bool kHasLargest, bool kIsSmoothed>
  TRAINCTL_INLINE static void update(const AdamPiece& piece) {
    const AdamCoefficients by = piece.by;
    const float* __restrict gradient = piece.tensor.gradient;
    float* __restrict parameter = piece.tensor.parameter;
    float* __restrict average = piece.tensor.average;
    float* __restrict square = piece.tensor.square;
    float* __restrict largest = piece.tensor.largest;
    float* __restrict smoothed = piece.tensor.smoothed;
    for (std::int64_t i = 0; i < piece.tensor.size; ++i) {
      float unused = 0;
      device::update_element<kHasLargest, kIsSmoothed>(by, gradient[i], parameter[i], average[i], square[i],
                                                       kHasLargest ? largest[i] : unused,
                                                       kIsSmoothed ? smoothed[i] : unused);
    }
  }
};

/// What remains of an update that is skipped.
struct SmoothLoop {
  template <class V>
  TRAINCTL_INLINE static void run(const AdamPiece* piece) {
    const float* __restrict parameter = piece->tensor.parameter;
    float* __restrict smoothed = piece->tensor.smoothed;
    for (std::int64_t i = 0; i < piece->tensor.size; ++i)
      smoothed[i] += piece->by.smoothing * (parameter[i] - smoothed[i]);
  }
};

bool has_overflowed(const MaybeTensor& found_inf) {
  return found_inf && found_inf->item<float>() != 0;
}

// NOLINTBEGIN(readability-function-size): an operator's arguments
void adam_on_cpu(at::TensorList parameters, at::TensorList gradients, at::TensorList averages, at::TensorList squares,
                 at::TensorList largest, at::TensorList smoothed, at::TensorList steps, double lr,
                 const MaybeTensor& device_lr, double beta1, double beta2, double epsilon, double weight_decay,
                 bool is_decoupled, double smoothing, const MaybeTensor& factor, const MaybeTensor& found_inf) {
  if (parameters.empty() || runtime::is_fake(parameters.front())) return;
  if (device_lr) lr *= device_lr->item<double>();
  const AdamRule rule{lr, {}, beta1, beta2, epsilon, weight_decay, is_decoupled};
  AdamCoefficients same = device::coefficients_of(rule, smoothing);
  if (is_decoupled) same.kept = static_cast<float>(1 - lr * weight_decay);
  if (factor) same.factor = factor->item<float>();
  std::vector<AdamPiece> pieces;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const AdamTensor tensor =
        device::adam_tensor(parameters, gradients, averages, squares, largest, smoothed, steps, i);
    AdamCoefficients by = same;
    by.step_size = static_cast<float>(lr / (1 - std::pow(beta1, static_cast<double>(*tensor.step))));
    by.root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, static_cast<double>(*tensor.step))));
    constexpr std::int64_t kPiece = 1 << 14;
    for (std::int64_t begin = 0; begin < tensor.size; begin += kPiece)
      pieces.push_back({stretch_of(tensor, begin, std::min(kPiece, tensor.size - begin)), by});
    elements += tensor.size;
  }
  const bool is_skipped = has_overflowed(found_inf);
  if (is_skipped && smoothed.empty()) return;
  constexpr std::int64_t kWorthThreads = 1 << 16;
  const auto count = static_cast<std::int64_t>(pieces.size());
  at::parallel_for(0, count, elements < kWorthThreads ? count : 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const AdamPiece* piece = &pieces[static_cast<std::size_t>(i)];
      is_skipped ? vectorized<SmoothLoop>(piece) : vectorized<AdamLoop>(piece);
    }
  });
}

void adam_on_gpu(at::TensorList parameters, at::TensorList gradients, at::TensorList averages, at::TensorList squares,
                 at::TensorList largest, at::TensorList smoothed, at::TensorList steps, double lr,
                 const MaybeTensor& device_lr, double beta1, double beta2, double epsilon, double weight_decay,
                 bool is_decoupled, double smoothing, const MaybeTensor& factor, const MaybeTensor& found_inf) {
  if (parameters.empty()) return;
  const c10::DeviceGuard guard(parameters.front().device());
  device::adam(cuda_grid(), parameters, gradients, averages, squares, largest, smoothed, steps,
               {lr, device_lr.value_or(at::Tensor()), beta1, beta2, epsilon, weight_decay, is_decoupled}, smoothing,
               factor.value_or(at::Tensor()), found_inf.value_or(at::Tensor()));
}
// NOLINTEND(readability-function-size)

// Registered with LibTorch's dispatcher, which finds the device's.
TORCH_LIBRARY_FRAGMENT(trainctl, library) {
  library.def(
      "adam_(Tensor(a!)[] parameters, Tensor[] gradients, Tensor(b!)[] averages, Tensor(c!)[] squares, "
      "Tensor(d!)[] largest, Tensor(e!)[] smoothed, Tensor[] steps, float lr, Tensor? device_lr, float beta1, "
      "float beta2, float epsilon, float weight_decay, bool is_decoupled, float smoothing, Tensor? factor, Tensor? "
      "found_inf) -> ()");
}
TORCH_LIBRARY_IMPL(trainctl, CPU, library) {
  library.impl("adam_", &adam_on_cpu);
}
TORCH_LIBRARY_IMPL(trainctl, Meta, library) {
  library.impl("adam_", &adam_on_cpu);
}
TORCH_LIBRARY_IMPL(trainctl, CUDA, library) {
  library.impl("adam_", &adam_on_gpu);
}

}  // namespace

bool has_adam_kernel(const AdamLists& lists) {
  const auto fits = [](const std::vector<at::Tensor>& tensors) {
    return std::ranges::all_of(tensors, [](const at::Tensor& tensor) {
      return tensor.scalar_type() == at::kFloat && (tensor.is_cpu() || tensor.is_cuda()) &&
             tensor.is_non_overlapping_and_dense();
    });
  };
  return fits(lists.parameters) && fits(lists.gradients) && fits(lists.smoothed);
}

void update_by_adam(const AdamLists& lists, const AdamRule& rule, const at::Tensor& factor,
                    const at::Tensor& found_inf) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("trainctl::adam_", "").typed<decltype(adam_on_cpu)>();
  const at::AutoDispatchBelowADInplaceOrView has_no_gradient;  // whose absence LibTorch would find out by boxing
  const auto maybe = [](const at::Tensor& tensor) { return tensor.defined() ? MaybeTensor(tensor) : MaybeTensor(); };
  op.call(lists.parameters, lists.gradients, lists.averages, lists.squares, lists.largest, lists.smoothed, lists.steps,
          rule.lr, maybe(rule.device_lr), rule.beta1, rule.beta2, rule.epsilon, rule.weight_decay, rule.is_decoupled,
          lists.smoothing, maybe(factor.defined() ? factor.to(at::kFloat) : factor), maybe(found_inf));
  for (const at::Tensor& parameter : lists.parameters) parameter.unsafeGetTensorImpl()->bump_version();
  for (const at::Tensor& average : lists.smoothed) average.unsafeGetTensorImpl()->bump_version();
}

}  // namespace trainctl::kernels
