// Small image files for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "dataset/image/codec/decode.h"
#include "dataset/shards/tar.h"

namespace trainctl::testing {

/// A JPEG whose level rises by `rise` from each row to the next.
inline std::string jpeg(int level, std::int64_t height = 20, std::int64_t width = 30, int rise = 0) {
  dataset::Image image;
  image.resize(height, width);
  for (std::int64_t y = 0; y < height; ++y)
    std::fill_n(image.bytes.begin() + y * width * 3, width * 3, static_cast<std::uint8_t>(level + rise * y));
  const std::vector<std::byte> bytes = dataset::encode_jpeg(image, 95);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline void add_member(std::string& tar, const std::string& name, const std::string& content) {
  tar += dataset::tar_header(name, content.size()) + content + dataset::tar_padding(content.size());
}

/// A tar of `count` images from number `first` on: number i is of level 5 i and of class i % 3.
inline std::string shard_of_images(int first, int count) {
  std::string tar;
  for (int i = first; i < first + count; ++i) {
    add_member(tar, "photos/" + std::to_string(i) + ".jpg", jpeg(5 * i, 16, 20));
    add_member(tar, "photos/" + std::to_string(i) + ".cls", std::to_string(i % 3));
  }
  return tar + dataset::tar_end();
}

}  // namespace trainctl::testing
