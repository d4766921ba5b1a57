#include "kernels/tile_product.h"

#include "kernels/vector_math.h"

namespace trainctl::kernels {
namespace {

/// Computes a tile with kTileRows × kVectors sums in registers.
template <class V, int kTileRows, int kVectors>
TRAINCTL_INLINE void tile(const LeftFactor& left, const RightFactor& right, const Result& result, std::int64_t inner,
                          float factor, Into into) {
  using Floats = typename V::Floats;
  Floats sums[kTileRows][kVectors] = {};
  const float* a = left.data;
  const float* b = right.data;
  for (std::int64_t k = 0; k < inner; ++k, a += left.column_stride, b += right.row_stride) {
    Floats row[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) load(b + v * V::kLanes, row[v]);
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
      const float one = a[r * left.row_stride];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] += one * row[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* place = result.data + r * result.row_stride + v * V::kLanes;
      Floats y = sums[r][v] * factor;
      if (into == Into::sum) {
        Floats before;
        load(place, before);
        y += before;
      }
      store(y, place);
    }
  }
}

/// Computes as many of the rows as whole tiles have. Moves `left` and `result` to those that are left.
template <class V, int kTileRows, int kVectors>
TRAINCTL_INLINE void whole_tiles(LeftFactor& left, const RightFactor& right, Result& result, std::int64_t& rows,
                                 std::int64_t inner, float factor, Into into) {
  for (; rows >= kTileRows; rows -= kTileRows) {
    tile<V, kTileRows, kVectors>(left, right, result, inner, factor, into);
    left.data += kTileRows * left.row_stride;
    result.data += kTileRows * result.row_stride;
  }
}

template <class V, int kVectors>
TRAINCTL_INLINE void rows_of_tiles(LeftFactor left, const RightFactor& right, Result result, const TileShape& shape,
                                   float factor, Into into) {
  // Sums of 8 rows and 2 vectors fill AVX-512's 32 registers by half; the older sets have 16 registers.
  constexpr int kTileRows = V::kLanes == 16 ? 8 : 6;
  std::int64_t rows = shape.rows;
  whole_tiles<V, kTileRows, kVectors>(left, right, result, rows, shape.inner, factor, into);
  whole_tiles<V, 4, kVectors>(left, right, result, rows, shape.inner, factor, into);
  whole_tiles<V, 1, kVectors>(left, right, result, rows, shape.inner, factor, into);
}

struct Product {
  template <class V>
  TRAINCTL_INLINE static void run(LeftFactor left, RightFactor right, Result result, TileShape shape, float factor,
                                  Into into) {
    std::int64_t j = 0;
    for (; j + 2 * V::kLanes <= shape.columns; j += 2 * V::kLanes)
      rows_of_tiles<V, 2>(left, {right.data + j, right.row_stride}, {result.data + j, result.row_stride}, shape, factor,
                          into);
    for (; j < shape.columns; j += V::kLanes)
      rows_of_tiles<V, 1>(left, {right.data + j, right.row_stride}, {result.data + j, result.row_stride}, shape, factor,
                          into);
  }
};

}  // namespace

void tile_product(const LeftFactor& left, const RightFactor& right, const Result& result, const TileShape& shape,
                  float factor, Into into) {
  vectorized<Product>(left, right, result, shape, factor, into);
}

}  // namespace trainctl::kernels
