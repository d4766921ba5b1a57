// Images in memory as bytes, each with a label.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataset/dataset.h"
#include "dataset/sampler/split.h"
#include "dataset/sources.h"

namespace trainctl::dataset {

struct ImageShape {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 1;
  std::int64_t row_bytes() const { return width * channels; }
  std::int64_t bytes() const { return height * row_bytes(); }
  bool operator==(const ImageShape&) const = default;
};

/// "3×32×32" (channels, rows, columns).
std::string describe(const ImageShape& shape);

struct ImageSet {
  ImageShape shape;
  std::vector<std::byte> pixels;     // [N, H, W, C]
  std::vector<std::uint8_t> labels;  // [N]
  std::int64_t num_classes = 0;
  std::vector<std::string> class_names{};  // empty: they have none
};

std::unique_ptr<Source> make_source(ImageSet set);

/// Returns the set in parts, by a hash of each image's pixels; the whole set for training if the split divides nothing.
Sources divided_sources(ImageSet set, const Split& split);

}  // namespace trainctl::dataset
