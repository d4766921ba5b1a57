// Images on their way into shards and pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dataset/image/codec/decode.h"
#include "dataset/image/in_memory.h"

namespace trainctl::data_tools {

/// What is written for one image.
struct StoredImage {
  std::string ending;  // jpg, png, webp
  std::vector<std::byte> bytes;
};

/// Not above `max_side` on its longer side; others are shrunk, and stored as JPEG. What needn't change is kept as it
/// is.
StoredImage limited(const dataset::EncodedImage& image, std::int64_t max_side, int quality);

/// The whole image, its longer side at most `max_side`.
dataset::Image decode_limited(const dataset::EncodedImage& image, std::int64_t max_side);

/// Pixels [H, W, 1 or 3] as PNG, without loss.
std::vector<std::byte> encode_png(const dataset::ImageShape& shape, const std::byte* pixels);

}  // namespace trainctl::data_tools
