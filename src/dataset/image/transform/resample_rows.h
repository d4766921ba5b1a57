// The two inner loops of resampling, for the processor at hand. All variants give the same bytes.
#pragma once

#include <cstdint>

namespace trainctl::dataset {

/// Weighted sum of `length` rows, byte by byte: `bytes` of them, at least 32 unless plain code is to run.
struct MixRows {
  const std::uint8_t* const* rows;
  const std::int16_t* weights;  // zero from `length` to the next even number, with a row there too
  std::int64_t length;
  int precision;
  std::int64_t bytes;
  std::uint8_t* output;
};
void mix_rows(const MixRows& mix);

/// Weighted sums of neighbouring pixels along a row. The row may be read, and the output written, 32 bytes beyond.
struct MixColumns {
  const std::uint8_t* row;
  const std::int64_t* first;  // pixel of the row, of each output pixel
  const std::int64_t* length;
  std::int64_t longest;         // of these lengths
  const std::int16_t* weights;  // [width, stride], zero beyond each length
  std::int64_t stride;          // a multiple of 4
  int precision;
  std::int64_t width;
  std::int64_t channels;
  std::uint8_t* output;
};
void mix_columns(const MixColumns& mix);

}  // namespace trainctl::dataset
