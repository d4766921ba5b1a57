#include <algorithm>

#include "core/error.h"
#include "dataset/transform.h"

namespace trainctl {
namespace {

constexpr std::int64_t kPixelsAtOnce = 16;  // a block is this many pixels: whole vectors for any number of channels

double of_channel(const std::vector<double>& values, std::int64_t channel) {
  return values.size() == 1 ? values[0] : values[static_cast<std::size_t>(channel)];
}

void check_count(std::string_view name, std::size_t count, std::int64_t channels) {
  if (count == 1 || count == static_cast<std::size_t>(channels)) return;
  throw Error("normalize: " + std::string(name) + " has " + std::to_string(count) + " values, but the images have " +
              std::to_string(channels) + (channels == 1 ? " channel" : " channels"))
      .hint("give one value for all channels, or one for each");
}

/// Sixteen values with a fixed count, so that the compiler makes vectors of them.
void scale_block(const std::uint8_t* __restrict in, const float* __restrict scale, const float* __restrict bias,
                 float* __restrict out) {
  for (int i = 0; i < 16; ++i) out[i] = static_cast<float>(in[i]) * scale[i] + bias[i];
}

}  // namespace

Normalize::Normalize(const ImageShape& shape) : size_(shape.bytes()) {
  set({.mean = {0}, .std = {1}}, shape.channels);
}

Normalize::Normalize(const NormalizeConfig& config, const ImageShape& shape) : size_(shape.bytes()) {
  check_count("mean", config.mean.size(), shape.channels);
  check_count("std", config.std.size(), shape.channels);
  for (const double std : config.std)
    if (!(std > 0)) throw Error("normalize: std must be positive");
  set(config, shape.channels);
}

void Normalize::set(const NormalizeConfig& config, std::int64_t channels) {
  const std::int64_t block = kPixelsAtOnce * channels;
  for (std::int64_t i = 0; i < block; ++i) {
    const double std = of_channel(config.std, i % channels);
    scale_.push_back(static_cast<float>(1 / (255 * std)));
    bias_.push_back(static_cast<float>(-of_channel(config.mean, i % channels) / std));
  }
}

void Normalize::apply(const std::uint8_t* bytes, float* values) const {
  const auto block = static_cast<std::int64_t>(scale_.size());
  std::int64_t at = 0;
  for (; at + block <= size_; at += block)
    for (std::int64_t i = 0; i < block; i += 16)
      scale_block(bytes + at + i, scale_.data() + i, bias_.data() + i, values + at + i);
  for (std::size_t i = 0; at < size_; ++at, ++i) values[at] = static_cast<float>(bytes[at]) * scale_[i] + bias_[i];
}

}  // namespace trainctl
