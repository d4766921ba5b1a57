// Shrinks and grows 8-bit images with an antialiased triangle filter: torchvision's Resize(antialias=True), within one
// level. Makes only the rows and columns that are asked for. AVX2 where the processor has it.
#pragma once

#include <cstdint>
#include <vector>

#include "dataset/image/decode.h"

namespace trainctl {

/// `box` of the input becomes `height` × `width`, of which `part` is made.
struct ResamplePlan {
  Box box;
  std::int64_t height = 0;
  std::int64_t width = 0;
  Region part;
};

/// One output axis: which input pixels each output pixel is a weighted sum of, in fixed point.
struct FilterAxis {
  std::vector<std::int32_t> first;    // of each output pixel
  std::vector<std::int16_t> weights;  // [outputs, taps]; zero where there are fewer
  std::int64_t taps = 0;              // a multiple of 4
  int precision = 0;                  // weights are times 2^precision
  void set(double begin, double size, std::int64_t input, std::int64_t output, std::int64_t from, std::int64_t count);
};

/// Row by row; keeps its memory. For one thread. 1 or 3 channels, any others by plain code.
class Resampler {
 public:
  /// `input` must stay until the last row.
  void begin(const Image& input, const ResamplePlan& plan);
  /// Row `y` of the plan's part: part.width pixels. The memory is valid until the next call.
  const std::uint8_t* row(std::int64_t y);

 private:
  const Image* input_ = nullptr;
  std::int64_t part_width_ = 0;
  FilterAxis down_;
  FilterAxis across_;
  std::int64_t left_ = 0;  // columns of the input that the part needs
  std::int64_t right_ = 0;
  std::vector<std::uint8_t> mixed_;   // one row of the input's columns, with room to read past its end
  std::vector<std::uint8_t> output_;  // one row, with room to write past its end
};

/// The whole image at another size.
Image resize(const Image& image, std::int64_t height, std::int64_t width);

}  // namespace trainctl
