#include "exporters/gguf/k_blocks.h"

#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>

namespace trainctl::exporters {
namespace {

constexpr std::size_t kSubBlock = 32;
constexpr std::size_t kSubBlocks = 8;
constexpr int kMostLevel = 15;
constexpr int kMostSubScale = 63;  // in 6 bits

using Levels = std::array<std::uint8_t, kSubBlock>;

/// Values as scale × level − offset.
struct SubBlock {
  float scale = 0;
  float offset = 0;
  Levels levels{};
};

std::uint8_t level_at(float steps) {
  return static_cast<std::uint8_t>(std::clamp<long>(std::lrintf(steps), 0, kMostLevel));
}

using Weights = std::array<float, kSubBlock>;

Weights weights_of(const float* values) {
  float squares = 0;
  for (std::size_t i = 0; i < kSubBlock; ++i) squares += values[i] * values[i];
  const float root_mean_square = std::sqrt(squares / kSubBlock);
  Weights weights;
  for (std::size_t i = 0; i < kSubBlock; ++i) weights[i] = root_mean_square + std::abs(values[i]);
  return weights;
}

float error_of(const SubBlock& fit, const float* values, const Weights& weights) {
  float error = 0;
  for (std::size_t i = 0; i < kSubBlock; ++i) {
    const float difference = fit.scale * static_cast<float>(fit.levels[i]) - fit.offset - values[i];
    error += weights[i] * difference * difference;
  }
  return error;
}

/// Sets scale and offset to those of least weighted squared error for the levels. The offset is no less than 0. Returns
/// false if the levels are all the same, which tell no scale.
bool fit_to_levels(SubBlock& fit, const float* values, const Weights& weights) {
  float sum_w = 0, sum_x = 0, sum_l = 0, sum_ll = 0, sum_xl = 0;
  for (std::size_t i = 0; i < kSubBlock; ++i) {
    const auto level = static_cast<float>(fit.levels[i]);
    sum_w += weights[i];
    sum_x += weights[i] * values[i];
    sum_l += weights[i] * level;
    sum_ll += weights[i] * level * level;
    sum_xl += weights[i] * level * values[i];
  }
  const float determinant = sum_w * sum_ll - sum_l * sum_l;
  if (!(determinant > 0)) return false;
  fit.scale = (sum_w * sum_xl - sum_x * sum_l) / determinant;
  fit.offset = -(sum_ll * sum_x - sum_l * sum_xl) / determinant;
  if (fit.offset < 0) {
    fit.offset = 0;
    fit.scale = sum_xl / sum_ll;
  }
  return true;
}

SubBlock fitted(const float* values) {
  constexpr int kTrials = 21;
  const auto [smallest, largest] = std::minmax_element(values, values + kSubBlock);
  float low = std::min(*smallest, 0.0F);
  SubBlock best{.offset = -low};
  if (*largest == low) return best;
  const Weights weights = weights_of(values);
  // Rounds to the levels from the lowest value, of which `levels` are in the range above it.
  const auto round_to = [&](SubBlock& fit, float levels) {
    const float levels_per_unit = levels / (*largest - low);
    for (std::size_t i = 0; i < kSubBlock; ++i) fit.levels[i] = level_at(levels_per_unit * (values[i] - low));
    return levels_per_unit;
  };
  best.scale = 1 / round_to(best, kMostLevel);
  float least = error_of(best, values, weights);
  for (int trial = 0; trial < kTrials; ++trial) {
    // From one level less than the range has to one level more.
    SubBlock fit;
    round_to(fit, -1.0F + 0.1F * static_cast<float>(trial) + kMostLevel);
    if (!fit_to_levels(fit, values, weights)) continue;
    if (const float error = error_of(fit, values, weights); error < least) {
      least = error;
      best = fit;
      low = -fit.offset;  // the next trials begin from the better fit
    }
  }
  return best;
}

/// Packs six bits of a scale and of an offset for each sub-block. The upper two bits of the last four sub-blocks are in
/// the bytes of the first four.
std::array<std::uint8_t, 12> packed(const std::array<unsigned, kSubBlocks>& scales,
                                    const std::array<unsigned, kSubBlocks>& offsets) {
  std::array<std::uint8_t, 12> bytes{};
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[i] = static_cast<std::uint8_t>(scales[i] | scales[i + 4] >> 4U << 6U);
    bytes[i + 4] = static_cast<std::uint8_t>(offsets[i] | offsets[i + 4] >> 4U << 6U);
    bytes[i + 8] = static_cast<std::uint8_t>((scales[i + 4] & 15U) | (offsets[i + 4] & 15U) << 4U);
  }
  return bytes;
}

/// Returns each value as a whole number of 63rds of the largest.
std::array<unsigned, kSubBlocks> in_six_bits(const std::array<float, kSubBlocks>& values, float largest) {
  const float inverse = largest > 0 ? kMostSubScale / largest : 0;
  std::array<unsigned, kSubBlocks> whole;
  for (std::size_t i = 0; i < kSubBlocks; ++i)
    whole[i] = static_cast<unsigned>(std::clamp<long>(std::lrintf(inverse * values[i]), 0, kMostSubScale));
  return whole;
}

}  // namespace

void encode_block(const float* values, BlockQ4K& block) {
  std::array<SubBlock, kSubBlocks> fits;
  std::array<float, kSubBlocks> scales;
  std::array<float, kSubBlocks> offsets;
  for (std::size_t i = 0; i < kSubBlocks; ++i) {
    fits[i] = fitted(values + i * kSubBlock);
    scales[i] = fits[i].scale;
    offsets[i] = fits[i].offset;
  }
  const float largest_scale = std::max(0.0F, *std::max_element(scales.begin(), scales.end()));
  const float largest_offset = std::max(0.0F, *std::max_element(offsets.begin(), offsets.end()));
  const auto whole_scales = in_six_bits(scales, largest_scale);
  const auto whole_offsets = in_six_bits(offsets, largest_offset);
  const c10::Half scale = largest_scale / kMostSubScale;
  const c10::Half offset = largest_offset / kMostSubScale;
  block.scale = scale.x;
  block.offset = offset.x;
  block.sub_scales = packed(whole_scales, whole_offsets);
  for (std::size_t i = 0; i < kSubBlocks; ++i) {
    // The levels of the scales that are stored.
    const float step = static_cast<float>(scale) * static_cast<float>(whole_scales[i]);
    const float low = static_cast<float>(offset) * static_cast<float>(whole_offsets[i]);
    if (step == 0) continue;
    for (std::size_t j = 0; j < kSubBlock; ++j) fits[i].levels[j] = level_at((values[i * kSubBlock + j] + low) / step);
  }
  for (std::size_t pair = 0; pair < kSubBlocks / 2; ++pair)
    for (std::size_t j = 0; j < kSubBlock; ++j)
      block.levels[pair * kSubBlock + j] =
          static_cast<std::uint8_t>(fits[2 * pair].levels[j] | fits[2 * pair + 1].levels[j] << 4U);
}

}  // namespace trainctl::exporters
