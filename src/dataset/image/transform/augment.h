// The operations of torchvision's AutoAugment family and ColorJitter on 8-bit images of 1 or 3 channels, given their
// parameters. Within one level of torchvision's; nearest-neighbour warps may take another neighbour where a sampling
// point lies halfway between two.
#pragma once

#include <array>
#include <cstdint>

#include "dataset/config.h"
#include "dataset/image/codec/decode.h"

namespace trainctl::dataset {

void adjust_brightness(Image& image, double factor);
void adjust_contrast(Image& image, double factor);
void adjust_saturation(Image& image, double factor);
void adjust_hue(Image& image, double turn);  // of the circle, -0.5 to 0.5
/// `spare` is overwritten, as in all that follows.
void adjust_sharpness(Image& image, double factor, Image& spare);
void posterize(Image& image, int bits);
void solarize(Image& image, double threshold);  // 0 to 255
void autocontrast(Image& image);
void equalize(Image& image);
void invert(Image& image);

/// What lies outside of the image, and how points between pixels are read.
struct Warp {
  Interpolation interpolation = Interpolation::nearest;
  double fill = 0;  // 0 to 255
};

/// Where an output pixel comes from, both relative to the image's middle: (x, y) -> (m0 x + m1 y + m2, m3 x + m4 y +
/// m5).
using WarpMatrix = std::array<double, 6>;
void warp(Image& image, const WarpMatrix& matrix, const Warp& how, Image& spare);

enum class AugmentOp {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize,
  invert,
};

/// One operation at a magnitude in its own unit, as torchvision's _apply_image_or_video_transform.
void apply(AugmentOp op, double magnitude, const Warp& how, Image& image, Image& spare);

}  // namespace trainctl::dataset
