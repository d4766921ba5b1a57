// Shrinks and grows 8-bit images with an antialiased triangle filter: torchvision's Resize(antialias=True), within one
// level, since it rounds between the two axes as we do but takes them in the other order. Makes only the rows and
// columns that are asked for. The same bytes on every processor; AVX2 where there is.
#pragma once

#include <cstdint>
#include <vector>

#include "dataset/image/codec/decode.h"

namespace trainctl::dataset {

/// `box` of the input becomes `height` × `width`, of which `part` is made.
struct ResamplePlan {
  Box box;
  std::int64_t height = 0;
  std::int64_t width = 0;
  Region part;
};

/// One axis: each output pixel is a weighted sum of neighbouring input pixels, in fixed point.
struct FilterAxis {
  struct Range {
    double begin;  // of the box in the input
    double size;
    std::int64_t input;   // pixels that there are
    std::int64_t output;  // pixels that the box becomes
    std::int64_t from;    // of these, the first that is made
    std::int64_t count;   // and how many are
  };
  void set(const Range& range);

  std::vector<std::int64_t> first;    // input pixel, of each output pixel
  std::vector<std::int64_t> length;   // input pixels, of each output pixel
  std::vector<std::int16_t> weights;  // [outputs, stride], times 2^precision; zero beyond the length
  std::int64_t longest = 0;           // of these lengths
  std::int64_t stride = 0;            // a multiple of 4
  int precision = 0;

 private:
  std::vector<double> exact_;
};

/// Row by row; keeps its memory. For one thread.
class Resampler {
 public:
  /// `input` must stay until the last row.
  void begin(ImageView input, const ResamplePlan& plan);
  /// Row `y` of the plan's part: part.width pixels. Valid until the next call.
  const std::uint8_t* row(std::int64_t y);

 private:
  ImageView input_;
  std::int64_t part_width_ = 0;
  FilterAxis down_;
  FilterAxis across_;
  std::int64_t left_ = 0;  // the input's columns that the part needs
  std::int64_t columns_ = 0;
  std::vector<const std::uint8_t*> taps_;  // the input rows of one output row
  std::vector<std::uint8_t> mixed_;        // one row of these columns, with room to read past its end
  std::vector<std::uint8_t> output_;       // one row, with room to write past its end
};

/// `plan.part` of the input, into `output`.
void resample(const Image& input, const ResamplePlan& plan, Resampler& resampler, Image& output);

/// The whole image at another size.
Image resize(const Image& image, std::int64_t height, std::int64_t width);

}  // namespace trainctl::dataset
