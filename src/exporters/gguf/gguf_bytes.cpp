// Values of tensors as GGUF stores them. Scales and rounding are those of ggml's reference (ggml-quants.c).
#include <ATen/Parallel.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/error.h"
#include "core/text.h"
#include "exporters/gguf/gguf_file.h"
#include "exporters/gguf/k_blocks.h"

namespace trainctl::exporters {
namespace {

constexpr std::int64_t kQuantBlock = 32;

struct BlockQ8 {
  c10::Half scale;
  std::array<std::int8_t, kQuantBlock> levels;
};
struct BlockQ4 {
  c10::Half scale;
  std::array<std::uint8_t, kQuantBlock / 2> levels;  // values 0 to 15 in the low halves, 16 to 31 in the high ones
};
struct BlockQ5 {
  c10::Half scale;
  std::array<std::uint8_t, kQuantBlock / 8> fifth_bits;  // of value 0 in the lowest bit
  std::array<std::uint8_t, kQuantBlock / 2> levels;      // the other four bits, as in BlockQ4
};
static_assert(sizeof(BlockQ8) == 34 && sizeof(BlockQ4) == 18 && sizeof(BlockQ5) == 22);

template <class Block>
constexpr std::int64_t kValuesOf = std::is_same_v<Block, BlockQ4K> ? kSuperBlock : kQuantBlock;

/// Returns the scale at which the value of the largest magnitude becomes `level`, which is below 0.
float scale_to(float level, const float* values) {
  return *std::max_element(values, values + kQuantBlock, [](float a, float b) { return std::abs(a) < std::abs(b); }) /
         level;
}

/// The largest magnitude becomes 127.
void encode_block(const float* values, BlockQ8& block) {
  float largest = 0;
  for (std::int64_t i = 0; i < kQuantBlock; ++i) largest = std::max(largest, std::abs(values[i]));
  const float scale = largest / 127;
  const float inverse = scale == 0 ? 0 : 1 / scale;
  block.scale = scale;
  for (std::size_t i = 0; i < block.levels.size(); ++i)
    block.levels[i] = static_cast<std::int8_t>(std::round(values[i] * inverse));
}

/// The value of the largest magnitude becomes level 0, which stands for -8.
void encode_block(const float* values, BlockQ4& block) {
  const float scale = scale_to(-8, values);
  const float inverse = scale == 0 ? 0 : 1 / scale;
  block.scale = scale;
  const auto level = [&](std::size_t i) {
    const double value = static_cast<double>(values[i]) * static_cast<double>(inverse) + 8.5;
    return static_cast<unsigned>(std::clamp(std::trunc(static_cast<float>(value)), 0.0F, 15.0F));
  };
  for (std::size_t i = 0; i < block.levels.size(); ++i)
    block.levels[i] = static_cast<std::uint8_t>(level(i) | level(i + block.levels.size()) << 4U);
}

/// The value of the largest magnitude becomes level 0, which stands for -16.
void encode_block(const float* values, BlockQ5& block) {
  const float scale = scale_to(-16, values);
  const float inverse = scale == 0 ? 0 : 1 / scale;
  block.scale = scale;
  block.fifth_bits = {};
  block.levels = {};
  for (std::size_t i = 0; i < kQuantBlock; ++i) {
    const double value = static_cast<double>(values[i]) * static_cast<double>(inverse) + 16.5;
    const auto level = static_cast<unsigned>(std::clamp(std::trunc(static_cast<float>(value)), 0.0F, 31.0F));
    block.fifth_bits[i / 8] = static_cast<std::uint8_t>(block.fifth_bits[i / 8] | level >> 4U << i % 8U);
    std::uint8_t& pair = block.levels[i % block.levels.size()];
    pair = static_cast<std::uint8_t>(pair | (level & 15U) << (i < block.levels.size() ? 0U : 4U));
  }
}

template <class Block>
std::string quant_blocks_of(const at::Tensor& values) {
  constexpr std::int64_t kValues = kValuesOf<Block>;
  const std::int64_t count = values.numel() / kValues;
  std::vector<Block> blocks(static_cast<std::size_t>(count));
  const auto* from = values.const_data_ptr<float>();
  at::parallel_for(0, count, 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) encode_block(from + i * kValues, blocks[static_cast<std::size_t>(i)]);
  });
  return {reinterpret_cast<const char*>(blocks.data()), blocks.size() * sizeof(Block)};
}

std::string stored_bytes(const at::Tensor& values) {
  return {static_cast<const char*>(values.const_data_ptr()), values.nbytes()};
}

/// Returns the largest magnitude that a half, or a half as the scale of a block, can express.
double largest_of(GgufType type) {
  constexpr double kLargestHalf = 65504;
  switch (type) {
    case GgufType::f32:
      return std::numeric_limits<double>::infinity();
    case GgufType::f16:
      return kLargestHalf;
    case GgufType::q8_0:
      return kLargestHalf * 127;
    case GgufType::q5_0:
      return kLargestHalf * 16;
    case GgufType::q4_0:
      return kLargestHalf * 8;
    case GgufType::q4_k:
      return kLargestHalf * 63;
  }
  throw std::logic_error("unknown type");
}

void check_range(const at::Tensor& values, GgufType type) {
  const auto largest = values.numel() == 0 ? 0.0 : values.abs().max().item<double>();
  if (largest <= largest_of(type)) return;
  throw core::Error("a value of magnitude " + core::format_number(largest) + " is beyond the type's largest, " +
                    core::format_number(largest_of(type)))
      .hint("choose another type, such as f32, or look at the weights");
}

}  // namespace

GgufType stored_type(const at::Tensor& tensor, GgufType wanted) {
  if (tensor.dim() < 2) return GgufType::f32;
  const bool has_blocks = wanted != GgufType::f32 && wanted != GgufType::f16;
  if (has_blocks && tensor.size(-1) % kQuantBlock != 0) return GgufType::f16;
  return wanted == GgufType::q4_k && tensor.size(-1) % kSuperBlock != 0 ? GgufType::q5_0 : wanted;
}

std::string gguf_bytes(const at::Tensor& tensor, GgufType type) {
  const at::Tensor values = tensor.detach().cpu().to(at::kFloat).contiguous();
  check_range(values, type);
  switch (type) {
    case GgufType::f32:
      return stored_bytes(values);
    case GgufType::f16:
      return stored_bytes(values.to(at::kHalf));
    case GgufType::q8_0:
      return quant_blocks_of<BlockQ8>(values);
    case GgufType::q5_0:
      return quant_blocks_of<BlockQ5>(values);
    case GgufType::q4_0:
      return quant_blocks_of<BlockQ4>(values);
    case GgufType::q4_k:
      return quant_blocks_of<BlockQ4K>(values);
  }
  throw std::logic_error("unknown type");
}

}  // namespace trainctl::exporters
