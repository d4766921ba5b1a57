// Values of tensors as GGUF stores them. Scales and rounding are those of ggml's reference (ggml-quants.c).
#include <ATen/Parallel.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "exporters/gguf/gguf_file.h"

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
static_assert(sizeof(BlockQ8) == 34 && sizeof(BlockQ4) == 18);

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
  const float largest =
      *std::max_element(values, values + kQuantBlock, [](float a, float b) { return std::abs(a) < std::abs(b); });
  const float scale = largest / -8;
  const float inverse = scale == 0 ? 0 : 1 / scale;
  block.scale = scale;
  const auto level = [&](std::size_t i) {
    const double value = static_cast<double>(values[i]) * static_cast<double>(inverse) + 8.5;
    return static_cast<unsigned>(std::clamp(std::trunc(static_cast<float>(value)), 0.0F, 15.0F));
  };
  for (std::size_t i = 0; i < block.levels.size(); ++i)
    block.levels[i] = static_cast<std::uint8_t>(level(i) | level(i + block.levels.size()) << 4U);
}

template <class Block>
std::string quant_blocks_of(const at::Tensor& values) {
  const std::int64_t count = values.numel() / kQuantBlock;
  std::vector<Block> blocks(static_cast<std::size_t>(count));
  const auto* from = values.const_data_ptr<float>();
  at::parallel_for(0, count, 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      encode_block(from + i * kQuantBlock, blocks[static_cast<std::size_t>(i)]);
  });
  return {reinterpret_cast<const char*>(blocks.data()), blocks.size() * sizeof(Block)};
}

std::string stored_bytes(const at::Tensor& values) {
  return {static_cast<const char*>(values.const_data_ptr()), values.nbytes()};
}

}  // namespace

GgufType stored_type(const at::Tensor& tensor, GgufType wanted) {
  if (tensor.dim() < 2) return GgufType::f32;
  const bool has_blocks = wanted == GgufType::q8_0 || wanted == GgufType::q4_0;
  return has_blocks && tensor.size(-1) % kQuantBlock != 0 ? GgufType::f16 : wanted;
}

std::string gguf_bytes(const at::Tensor& tensor, GgufType type) {
  const at::Tensor values = tensor.detach().cpu().to(at::kFloat).contiguous();
  switch (type) {
    case GgufType::f32:
      return stored_bytes(values);
    case GgufType::f16:
      return stored_bytes(values.to(at::kHalf));
    case GgufType::q8_0:
      return quant_blocks_of<BlockQ8>(values);
    case GgufType::q4_0:
      return quant_blocks_of<BlockQ4>(values);
  }
  throw std::logic_error("unknown type");
}

}  // namespace trainctl::exporters
