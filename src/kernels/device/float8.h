// Tensors in eight bits for matrix products: quantized with one scale, in both memory layouts at once.
#pragma once

#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>

#include <cstdint>

#include "kernels/device/block.h"
#include "kernels/device/element.h"

namespace trainctl::kernels::device {

/// https://arxiv.org/abs/2209.05433: e4m3 for activations and weights, e5m2 for gradients.
enum class Float8 { e4m3, e5m2 };

template <class T>
struct Float8Limits;
template <>
struct Float8Limits<c10::Float8_e4m3fn> {
  static constexpr float largest = 448;
};
template <>
struct Float8Limits<c10::Float8_e5m2> {
  static constexpr float largest = 57344;
};

/// Returns what values of this largest magnitude are multiplied by. Zeros stay zeros. Infinite values become NaN by a
/// scale of 0, so that they are noticed.
template <class F8>
TRAINCTL_DEVICE float scale_for(float amax) {
  constexpr float kLeast = 1e-30F;  // with less, the scale itself would overflow
  return amax < kLeast ? 1.0F : Float8Limits<F8>::largest / amax;
}

/// quantized = input · scale, where scale = largest / amax is so that nothing overflows. The products' other factor
/// needs the transposed one, since GPUs multiply eight bits along rows alone.
struct QuantizeArguments {
  static constexpr std::int64_t kTile = 64;

  Element type = Element::fp32;
  Float8 format = Float8::e4m3;
  std::int64_t rows = 0;           // a multiple of 4
  std::int64_t columns = 0;        // a multiple of 4
  const void* input = nullptr;     // [rows, columns]
  const float* amax = nullptr;     // [1]: the largest magnitude
  void* quantized = nullptr;       // [rows, columns]
  void* transposed = nullptr;      // [columns, rows]
  float* inverse_scale = nullptr;  // [1]

  std::int64_t tiles_across() const { return (columns + kTile - 1) / kTile; }
  Launch launch(std::int64_t) const { return {.blocks = (rows + kTile - 1) / kTile * tiles_across(), .threads = 256}; }
};

/// A block takes a tile, and a thread four neighbours of it at a time.
template <class T, class F8>
struct Quantize {
  QuantizeArguments given;

  TRAINCTL_DEVICE void operator()(const Block& block) const {
    constexpr int kWidth = 4;
    constexpr int kTile = static_cast<int>(QuantizeArguments::kTile);
    constexpr int kAcross = kTile / kWidth;  // threads in a row of the tile
    const std::int64_t across = (given.columns + kTile - 1) / kTile;
    const std::int64_t first_row = block.index() / across * kTile;
    const std::int64_t first_column = block.index() % across * kTile;
    const float amax = *given.amax;
    const float scale = scale_for<F8>(amax);
    Block::Shared<F8, kTile*(kTile + kWidth)> tile(block);
    block.each([&](int thread) {
      const int column = thread % kAcross * kWidth;
      for (int row = thread / kAcross; row < kTile; row += block.threads() / kAcross) {
        const std::int64_t at = (first_row + row) * given.columns + first_column + column;
        if (first_row + row >= given.rows || first_column + column >= given.columns) continue;
        float values[kWidth];
        read<kWidth>(static_cast<const T*>(given.input), at / kWidth, values);
        Chunk<F8, kWidth> narrow;
        for (int i = 0; i < kWidth; ++i) {
          narrow.values[i] = to_float8(values[i] * scale);
          tile[row * (kTile + kWidth) + column + i] = narrow.values[i];
        }
        static_cast<Chunk<F8, kWidth>*>(given.quantized)[at / kWidth] = narrow;
      }
      if (thread == 0 && block.index() == 0) *given.inverse_scale = 1.0F / scale;
    });
    block.meet();
    block.each([&](int thread) {
      const int row = thread % kAcross * kWidth;
      for (int column = thread / kAcross; column < kTile; column += block.threads() / kAcross) {
        if (first_row + row >= given.rows || first_column + column >= given.columns) continue;
        Chunk<F8, kWidth> narrow;
        for (int i = 0; i < kWidth; ++i) narrow.values[i] = tile[(row + i) * (kTile + kWidth) + column];
        const std::int64_t at = (first_column + column) * given.rows + first_row + row;
        static_cast<Chunk<F8, kWidth>*>(given.transposed)[at / kWidth] = narrow;
      }
    });
  }

 private:
  /// Rounding of the scaled amax may give a little more than the largest number, which would become NaN.
  TRAINCTL_DEVICE static F8 to_float8(float value) {
    constexpr float kLargest = Float8Limits<F8>::largest;
    return F8(value > kLargest ? kLargest : value < -kLargest ? -kLargest : value);
  }
};

/// Calls run(kernel) with the kernel for the arguments.
template <class Run>
void with_kernel(const QuantizeArguments& given, const Run& run) {
  with_element(given.type, [&](auto zero) {
    using T = decltype(zero);
    if (given.format == Float8::e4m3)
      run(Quantize<T, c10::Float8_e4m3fn>{given});
    else
      run(Quantize<T, c10::Float8_e5m2>{given});
  });
}

}  // namespace trainctl::kernels::device
