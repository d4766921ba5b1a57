// Affine warps as torchvision's: grid_sample with zeros outside, align_corners false, in 32-bit floats.
#include <algorithm>
#include <cmath>

#include "dataset/image/transform/augment.h"

namespace trainctl::dataset {
namespace {

/// A coordinate of an output pixel's source: c0 x + c1 y + c2, in input pixels.
struct Coordinate {
  float x;
  float y;
  float constant;
  float size;

  Coordinate(double c0, double c1, double c2, std::int64_t pixels)
      : x(static_cast<float>(c0) / half(pixels)),
        y(static_cast<float>(c1) / half(pixels)),
        constant(static_cast<float>(c2) / half(pixels)),
        size(static_cast<float>(pixels)) {}

  static float half(std::int64_t pixels) { return 0.5F * static_cast<float>(pixels); }
  float at(float from_x, float from_y) const { return ((from_x * x + from_y * y + constant + 1) * size - 1) / 2; }
};

float centered(std::int64_t i, std::int64_t size) {
  return static_cast<float>(i) - static_cast<float>(size - 1) * 0.5F;
}

void copy_nearest(const Image& in, float x, float y, std::uint8_t fill, std::uint8_t* out) {
  const float column = std::nearbyint(x);
  const float row = std::nearbyint(y);
  const bool inside =
      column >= 0 && row >= 0 && column < static_cast<float>(in.width) && row < static_cast<float>(in.height);
  if (!inside) {
    std::fill_n(out, in.channels, fill);
    return;
  }
  std::copy_n(in.row(static_cast<std::int64_t>(row)) + static_cast<std::int64_t>(column) * in.channels, in.channels,
              out);
}

/// Blends four neighbors. A neighbor outside the image counts as `fill`, by its share.
void blend(const Image& in, float x, float y, float fill, std::uint8_t* out) {
  const float left = std::floor(x);
  const float top = std::floor(y);
  std::fill_n(out, in.channels, static_cast<std::uint8_t>(std::nearbyint(fill)));
  if (left < -1 || top < -1 || left >= static_cast<float>(in.width) || top >= static_cast<float>(in.height)) return;
  const auto column = static_cast<std::int64_t>(left);
  const auto row = static_cast<std::int64_t>(top);
  const float across[] = {left + 1 - x, x - left};
  const float down[] = {top + 1 - y, y - top};
  for (std::int64_t c = 0; c < in.channels; ++c) {
    float sum = 0;
    float inside = 0;
    for (int j = 0; j < 2; ++j)
      for (int i = 0; i < 2; ++i) {
        if (column + i < 0 || column + i >= in.width || row + j < 0 || row + j >= in.height) continue;
        sum += across[i] * down[j] * static_cast<float>(in.row(row + j)[(column + i) * in.channels + c]);
        inside += across[i] * down[j];
      }
    // torchvision with a fill takes the share of what is inside twice; without one it doesn't.
    const float value = fill == 0 ? sum : std::clamp((sum - fill) * inside + fill, 0.0F, 255.0F);
    out[c] = static_cast<std::uint8_t>(std::nearbyint(value));
  }
}

}  // namespace

void warp(Image& image, const WarpMatrix& matrix, const Warp& how, Image& spare) {
  spare.resize(image.height, image.width, image.channels);
  const Coordinate to_x(matrix[0], matrix[1], matrix[2], image.width);
  const Coordinate to_y(matrix[3], matrix[4], matrix[5], image.height);
  const auto fill = static_cast<float>(how.fill);
  const auto fill_byte = static_cast<std::uint8_t>(std::nearbyint(how.fill));
  for (std::int64_t row = 0; row < image.height; ++row) {
    const float y = centered(row, image.height);
    std::uint8_t* out = spare.row(row);
    for (std::int64_t column = 0; column < image.width; ++column, out += image.channels) {
      const float x = centered(column, image.width);
      if (how.interpolation == Interpolation::nearest)
        copy_nearest(image, to_x.at(x, y), to_y.at(x, y), fill_byte, out);
      else
        blend(image, to_x.at(x, y), to_y.at(x, y), fill, out);
    }
  }
  std::swap(image.bytes, spare.bytes);
}

}  // namespace trainctl::dataset
