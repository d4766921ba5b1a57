// Products of bytes on CPUs whose vectors have no product of bytes that widens to 32 bits (AVX2 without VNNI).
// Remove it once LibTorch's x86 engine is as fast there: compare `trainctl quantize` of a bert with
// quantization.engine_workarounds false and true under ATEN_CPU_CAPABILITY=avx2.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

namespace trainctl::quantization {

/// A packed matrix of weights in eight bits. On these CPUs, two products are added in sixteen bits (`vpmaddubsw`). This
/// kernel adds two such sums before it widens them, which takes 5 instructions; 6 are usual. A few of the largest
/// weights (1 of 3,000 of a trained BERT) are kept apart and added separately, so that no sum overflows. FBGEMM's
/// kernels that accumulate in 16 bits do the same (https://arxiv.org/abs/2101.05615). Sums are exact; only the last
/// step is in floats.
class Int8Matrix {
 public:
  /// The largest level that all inputs may have without an overflow of sixteen bits. A few larger ones, to 255, cost a
  /// little more each.
  static constexpr std::int64_t kMaxLevel = 127;
  /// `in` is a multiple of it.
  static constexpr std::int64_t kInputs = 8;

  /// Whether this CPU can.
  static bool is_supported();
  /// Whether LibTorch has nothing faster here. A process that ATEN_CPU_CAPABILITY holds to less counts as a lesser CPU.
  static bool pays();

  /// int8 [out, in].
  explicit Int8Matrix(const at::Tensor& weights);

  /// Where the levels of inputs lie: value = (level - zero_point) · scale. Beyond 0 and 255 they end.
  struct InputLevels {
    double scale;
    std::int64_t zero_point;
  };
  /// With each output's distance of levels (float [out]) and its bias (float [out], or undefined).
  struct Factor {
    const Int8Matrix& matrix;
    at::Tensor scales;
    at::Tensor bias;
  };
  /// float [..., in] -> float [..., out] of each matrix. The input is rounded once.
  static std::vector<at::Tensor> multiply(const at::Tensor& input, const InputLevels& levels,
                                          const std::vector<Factor>& factors);

  std::int64_t num_apart() const { return num_apart_; }

  /// Weights that are kept apart: four inputs of a panel's outputs, zeros among them.
  struct Apart {
    std::int64_t first_input;
    std::array<std::int8_t, 64> weights;  // [16, 4]
  };
  /// What levels have above kMaxLevel: four inputs of a row, zeros among them.
  struct Beyond {
    std::int64_t first_input;
    std::array<std::uint8_t, 4> levels;
  };

 private:
  struct Product;
  void multiply_panel(std::int64_t panel, const Product& product) const;
  void keep_apart(std::int64_t panel, std::int64_t group, std::int8_t* weights);

  std::int64_t in_ = 0;
  std::int64_t out_ = 0;
  std::int64_t num_apart_ = 0;
  at::Tensor packed_;                      // int8 [panels, in / 4, 16, 4]
  std::vector<std::int32_t> sums_;         // [out], of each output's weights
  std::vector<std::vector<Apart>> apart_;  // by panel
};

}  // namespace trainctl::quantization
