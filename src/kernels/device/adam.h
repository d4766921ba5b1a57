// Adam and AdamW over many tensors at once, with all that is done to gradients and parameters on the way.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/device/block.h"
#include "kernels/device/element.h"

namespace trainctl::kernels::device {

/// What an update multiplies by, for the elements of one tensor.
struct AdamCoefficients {
  float factor = 1;  // of the gradient
  float kept = 1;    // of the parameter, with decoupled decay
  float decay = 0;   // of the parameter, added to the gradient
  float beta1 = 0;
  float beta2 = 0;
  float rest1 = 0;  // 1 - beta1, of more digits than the difference of floats has
  float rest2 = 0;
  float step_size = 0;   // lr / (1 - beta1^step)
  float root_scale = 0;  // 1 / √(1 - beta2^step)
  float epsilon = 0;
  float smoothing = 0;  // share of the parameter in its moving average
};

/// https://arxiv.org/abs/1412.6980 and https://arxiv.org/abs/1711.05101, as torch.optim computes them.
template <bool kHasLargest, bool kIsSmoothed>
TRAINCTL_DEVICE void update_element(const AdamCoefficients& by, float gradient, float& parameter, float& average,
                                    float& square, float& largest, float& smoothed) {
  parameter *= by.kept;
  gradient = gradient * by.factor + by.decay * parameter;
  average = by.beta1 * average + by.rest1 * gradient;
  square = by.beta2 * square + by.rest2 * gradient * gradient;
  float seen = square;
  if constexpr (kHasLargest) {
    largest = largest < square ? square : largest;
    seen = largest;
  }
  parameter -= by.step_size * average / (std::sqrt(seen) * by.root_scale + by.epsilon);
  if constexpr (kIsSmoothed) smoothed += by.smoothing * (parameter - smoothed);
}

/// A parameter with what is kept beside it, dense and in one order.
struct AdamTensor {
  std::int64_t size = 0;
  float* parameter = nullptr;
  const float* gradient = nullptr;
  float* average = nullptr;
  float* square = nullptr;
  float* largest = nullptr;     // AMSGrad's; null: none
  float* smoothed = nullptr;    // the moving average; null: none
  const float* step = nullptr;  // [1]: updates with this one
};

/// A block takes a piece of one tensor. The struct is a kernel's parameter, which may have 4 KiB.
struct AdamArguments {
  static constexpr int kMostTensors = 44;
  static constexpr std::int64_t kPiece = 1 << 14;

  int width = 1;  // 4: all addresses are multiples of 16
  double lr = 0;
  double decoupled_decay = 0;         // of the parameter, for each unit of the learning rate
  const double* device_lr = nullptr;  // [1]: lr is multiplied by it; null: 1
  float log_beta1 = 0;
  float log_beta2 = 0;
  AdamCoefficients same{};           // those that no tensor and no device value changes
  const float* factor = nullptr;     // [1], of the gradients; null: 1
  const float* found_inf = nullptr;  // [1]: with a value but 0 nothing but the moving average changes; null: 0
  int count = 0;
  std::int64_t first_piece[kMostTensors + 1] = {};
  AdamTensor tensors[kMostTensors];

  void add(const AdamTensor& tensor) {
    tensors[count] = tensor;
    first_piece[count + 1] = first_piece[count] + (tensor.size + kPiece - 1) / kPiece;
    ++count;
  }
  Launch launch(std::int64_t) const { return {.blocks = first_piece[count], .threads = 256}; }
};
static_assert(sizeof(AdamArguments) <= 4096);

template <int kWidth>
struct AdamUpdate {
  AdamArguments given;

  TRAINCTL_DEVICE void operator()(const Block& block) const {
    int which = 0;
    while (given.first_piece[which + 1] <= block.index()) ++which;
    const AdamTensor& tensor = given.tensors[which];
    const AdamCoefficients by = coefficients(tensor);
    const bool is_skipped = given.found_inf != nullptr && *given.found_inf != 0;
    const std::int64_t begin = (block.index() - given.first_piece[which]) * AdamArguments::kPiece;
    const std::int64_t left = tensor.size - begin;
    const std::int64_t size = left < AdamArguments::kPiece ? left : AdamArguments::kPiece;
    const std::int64_t whole = size / kWidth * kWidth;
    block.each([&](int thread) {
      for (std::int64_t i = std::int64_t{thread} * kWidth; i < whole; i += std::int64_t{block.threads()} * kWidth)
        is_skipped ? smooth<kWidth>(tensor, by, begin + i) : update<kWidth>(tensor, by, begin + i);
      for (std::int64_t i = whole + thread; i < size; i += block.threads())
        is_skipped ? smooth<1>(tensor, by, begin + i) : update<1>(tensor, by, begin + i);
    });
  }

 private:
  TRAINCTL_DEVICE AdamCoefficients coefficients(const AdamTensor& tensor) const {
    AdamCoefficients by = given.same;
    if (given.factor != nullptr) by.factor = *given.factor;
    const double lr = given.device_lr != nullptr ? given.lr * *given.device_lr : given.lr;
    by.kept = static_cast<float>(1 - lr * given.decoupled_decay);
    // 1 - beta^step; its own logarithm is exact where beta is close to 1.
    by.step_size = static_cast<float>(lr) / -std::expm1(*tensor.step * given.log_beta1);
    by.root_scale = 1.0F / std::sqrt(-std::expm1(*tensor.step * given.log_beta2));
    return by;
  }

  template <int kCount>
  TRAINCTL_DEVICE static void smooth(const AdamTensor& tensor, const AdamCoefficients& by, std::int64_t at) {
    if (tensor.smoothed == nullptr) return;
    float values[kCount];
    float smoothed[kCount];
    read<kCount>(tensor.parameter, at / kCount, values);
    read<kCount>(tensor.smoothed, at / kCount, smoothed);
    for (int i = 0; i < kCount; ++i) smoothed[i] += by.smoothing * (values[i] - smoothed[i]);
    write<kCount>(tensor.smoothed, at / kCount, smoothed);
  }

  template <int kCount>
  TRAINCTL_DEVICE static void update(const AdamTensor& tensor, const AdamCoefficients& by, std::int64_t at) {
    if (tensor.largest != nullptr)
      tensor.smoothed != nullptr ? update<kCount, true, true>(tensor, by, at)
                                 : update<kCount, true, false>(tensor, by, at);
    else
      tensor.smoothed != nullptr ? update<kCount, false, true>(tensor, by, at)
                                 : update<kCount, false, false>(tensor, by, at);
  }

  template <int kCount, bool kHasLargest, bool kIsSmoothed>
  TRAINCTL_DEVICE static void update(const AdamTensor& tensor, const AdamCoefficients& by, std::int64_t at) {
    float gradients[kCount];
    float values[kCount];
    float averages[kCount];
    float squares[kCount];
    float largest[kCount] = {};
    float smoothed[kCount] = {};
    read<kCount>(tensor.gradient, at / kCount, gradients);
    read<kCount>(tensor.parameter, at / kCount, values);
    read<kCount>(tensor.average, at / kCount, averages);
    read<kCount>(tensor.square, at / kCount, squares);
    if constexpr (kHasLargest) read<kCount>(tensor.largest, at / kCount, largest);
    if constexpr (kIsSmoothed) read<kCount>(tensor.smoothed, at / kCount, smoothed);
    for (int i = 0; i < kCount; ++i)
      update_element<kHasLargest, kIsSmoothed>(by, gradients[i], values[i], averages[i], squares[i], largest[i],
                                               smoothed[i]);
    write<kCount>(tensor.parameter, at / kCount, values);
    write<kCount>(tensor.average, at / kCount, averages);
    write<kCount>(tensor.square, at / kCount, squares);
    if constexpr (kHasLargest) write<kCount>(tensor.largest, at / kCount, largest);
    if constexpr (kIsSmoothed) write<kCount>(tensor.smoothed, at / kCount, smoothed);
  }
};

/// Calls run(kernel) with the kernel for the arguments.
template <class Run>
void with_kernel(const AdamArguments& given, const Run& run) {
  with_constant<1, 4>(given.width, [&](auto width) { run(AdamUpdate<width()>{given}); });
}

}  // namespace trainctl::kernels::device
