// Products of small matrices of floats that lie in the cache. For this folder alone.
#pragma once

#include <cstdint>

namespace trainctl::kernels {

/// Element (i, j) is data[i * row_stride + j * column_stride].
struct LeftFactor {
  const float* data;
  std::int64_t row_stride;
  std::int64_t column_stride;
};
/// Dense rows.
struct RightFactor {
  const float* data;
  std::int64_t row_stride;
};
struct Result {
  float* data;
  std::int64_t row_stride;
};
struct TileShape {
  std::int64_t rows;
  std::int64_t inner;
  std::int64_t columns;  // a multiple of kMaxLanes
};
enum class Into { nothing, sum };

/// result = factor · left · right, or that added to it.
void tile_product(const LeftFactor& left, const RightFactor& right, const Result& result, const TileShape& shape,
                  float factor, Into into);

}  // namespace trainctl::kernels
