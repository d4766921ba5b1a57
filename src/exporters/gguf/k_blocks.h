// Blocks of 256 values with two levels of scales: GGUF's type q4_K.
#pragma once

#include <array>
#include <cstdint>

namespace trainctl::exporters {

inline constexpr std::int64_t kSuperBlock = 256;

/// A block as the file has it: value = scale × sub_scale × level − offset × sub_offset.
struct BlockQ4K {
  std::uint16_t scale;                      // a half
  std::uint16_t offset;                     // a half
  std::array<std::uint8_t, 12> sub_scales;  // scale and offset of each of 8 sub-blocks, in 6 bits each
  std::array<std::uint8_t, 128> levels;     // of two sub-blocks in a byte: the earlier one's in the low half
};
static_assert(sizeof(BlockQ4K) == 144);

/// Encodes 256 values. Each sub-block of 32 has the scale and offset of least weighted squared error among 22 trials. A
/// trial rounds to levels at another step, from the lowest value of the best fit so far. Least squares then fit scale
/// and offset to these levels. A value weighs its magnitude plus the root mean square of its sub-block. Method, trials
/// and weights are those of make_qkx2_quants and quantize_row_q4_K_ref in llama.cpp (ggml/src/ggml-quants.c).
void encode_block(const float* values, BlockQ4K& block);

}  // namespace trainctl::exporters
