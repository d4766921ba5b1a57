// PNG files whose pixels are class numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataset/image/codec/decode.h"

namespace trainctl::dataset {

/// A class for each pixel, row by row.
struct ClassMask {
  static constexpr std::uint8_t kNoClass = 255;

  std::string name{};  // of the file
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> classes{};

  std::uint8_t at(std::int64_t row, std::int64_t column) const {
    return classes[static_cast<std::size_t>(row * width + column)];
  }
};

/// Decodes a PNG with grey levels of up to 8 bits, or with a palette, whose indices are the classes. Throws BadSample,
/// with the file's name, if the file is damaged or has colors.
ClassMask decode_class_mask(const EncodedImage& file);

/// Returns a PNG file of up to 8 bits with a palette, which has a color for each class number.
std::vector<std::byte> encode_class_mask(const ClassMask& mask);

/// The color of a class number in masks that are written: the palette of PASCAL VOC.
struct MaskColor {
  std::uint8_t red;
  std::uint8_t green;
  std::uint8_t blue;
};
MaskColor color_of_class(std::uint8_t class_number);

}  // namespace trainctl::dataset
