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
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; ++r) {
      const float one = a[r * left.row_stride];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] += one * row[v];
    }
  }
#pragma GCC unroll 4
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

template <class V, int kVectors>
TRAINCTL_INLINE void rows_of_tiles(const LeftFactor& left, const RightFactor& right, const Result& result,
                                   const TileShape& shape, float factor, Into into) {
  constexpr std::int64_t kTileRows = 4;
  LeftFactor from = left;
  Result to = result;
  std::int64_t i = 0;
  for (; i + kTileRows <= shape.rows; i += kTileRows) {
    tile<V, kTileRows, kVectors>(from, right, to, shape.inner, factor, into);
    from.data += kTileRows * left.row_stride;
    to.data += kTileRows * result.row_stride;
  }
  for (; i < shape.rows; ++i) {
    tile<V, 1, kVectors>(from, right, to, shape.inner, factor, into);
    from.data += left.row_stride;
    to.data += result.row_stride;
  }
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
