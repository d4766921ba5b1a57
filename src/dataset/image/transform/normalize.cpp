#include <algorithm>

#include "core/error.h"
#include "dataset/image/transform/transform.h"
#include "machine/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace trainctl::dataset {
namespace {

constexpr std::int64_t kPixelsAtOnce = 16;  // a block is this many pixels: whole vectors for any number of channels

double of_channel(const std::vector<double>& values, std::int64_t channel) {
  return values.size() == 1 ? values[0] : values[static_cast<std::size_t>(channel)];
}

void check_count(std::string_view name, std::size_t count, std::int64_t channels) {
  if (count == 1 || count == static_cast<std::size_t>(channels)) return;
  throw core::Error("normalize: " + std::string(name) + " has " + std::to_string(count) +
                    " values, but the images have " + std::to_string(channels) +
                    (channels == 1 ? " channel" : " channels"))
      .hint("give one value for all channels, or one for each");
}

/// Applies `apply` to blocks of sixteen values, a fixed count that the compiler turns into vectors.
template <class Block>
std::int64_t in_blocks(std::int64_t size, std::int64_t block, const Block& apply) {
  std::int64_t at = 0;
  for (; at + block <= size; at += block)
    for (std::int64_t i = 0; i < block; i += 16) apply(at + i, i);
  return at;
}

struct Line {
  const std::uint8_t* in;
  const float* scale;  // of a block
  const float* bias;
  std::int64_t block;
  float* out;
  std::int64_t size;
};

/// Scales all but an incomplete block; returns the number of values that are done.
std::int64_t scale_plain(const Line& line) {
  return in_blocks(line.size, line.block, [&](std::int64_t at, std::int64_t i) {
    for (int k = 0; k < 16; ++k)
      line.out[at + k] = static_cast<float>(line.in[at + k]) * line.scale[i + k] + line.bias[i + k];
  });
}

#if defined(__x86_64__)

/// Scales eight values at a time, with the products and sums of scale_plain.
__attribute__((target("avx2"))) std::int64_t scale_avx2(const Line& line) {
  std::int64_t at = 0;
  for (; at + line.block <= line.size; at += line.block)
    for (std::int64_t i = 0; i < line.block; i += 8) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(line.in + at + i));
      const __m256 values = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
      const __m256 scaled = _mm256_mul_ps(values, _mm256_loadu_ps(line.scale + i));
      _mm256_storeu_ps(line.out + at + i, _mm256_add_ps(scaled, _mm256_loadu_ps(line.bias + i)));
    }
  return at;
}

std::int64_t scale(const Line& line) {
  return machine::cpu_features().avx2 ? scale_avx2(line) : scale_plain(line);
}

#else

std::int64_t scale(const Line& line) {
  return scale_plain(line);
}

#endif

}  // namespace

Normalize::Normalize(std::int64_t channels) : channels_(channels) {
  set({.mean = {0}, .std = {1}}, channels);
}

Normalize::Normalize(const NormalizeConfig& config, std::int64_t channels) : channels_(channels) {
  check_count("mean", config.mean.size(), channels);
  check_count("std", config.std.size(), channels);
  for (const double std : config.std)
    if (!(std > 0)) throw core::Error("normalize: std must be positive");
  set(config, channels);
}

void Normalize::set(const NormalizeConfig& config, std::int64_t channels) {
  const std::int64_t block = kPixelsAtOnce * channels;
  for (std::int64_t i = 0; i < block; ++i) {
    const double std = of_channel(config.std, i % channels);
    scale_.push_back(static_cast<float>(1 / (255 * std)));
    bias_.push_back(static_cast<float>(-of_channel(config.mean, i % channels) / std));
  }
}

PixelScaling Normalize::scaling() const {
  return {.scale = {scale_.begin(), scale_.begin() + channels_}, .bias = {bias_.begin(), bias_.begin() + channels_}};
}

void Normalize::apply(const std::uint8_t* bytes, float* values, std::int64_t size) const {
  const auto block = static_cast<std::int64_t>(scale_.size());
  std::int64_t at = scale({bytes, scale_.data(), bias_.data(), block, values, size});
  if (at < size && size > block) {  // the last block once more, further on: both begin with a whole pixel
    scale({bytes + size - block, scale_.data(), bias_.data(), block, values + size - block, block});
    return;
  }
  for (std::size_t i = 0; at < size; ++at, ++i) values[at] = static_cast<float>(bytes[at]) * scale_[i] + bias_[i];
}

}  // namespace trainctl::dataset
