#include "kernels/winograd_transforms.h"

#include <utility>

#include "kernels/vector_math.h"

namespace trainctl::kernels {
namespace {

constexpr int kTile = 2;   // pixels of outputs, each way
constexpr int kPatch = 4;  // of inputs that a tile needs
constexpr int kKernel = 3;

// The transforms of one dimension: the matrices of the paper's section 4.1.

struct TransposedB {
  template <class F>
  TRAINCTL_INLINE static void run(const F (&d)[kPatch], F (&to)[kPatch]) {
    to[0] = d[0] - d[2], to[1] = d[1] + d[2], to[2] = d[2] - d[1], to[3] = d[1] - d[3];
  }
};
struct TransposedA {
  template <class F>
  TRAINCTL_INLINE static void run(const F (&m)[kPatch], F (&to)[kTile]) {
    to[0] = m[0] + m[1] + m[2], to[1] = m[1] - m[2] - m[3];
  }
};
struct A {
  template <class F>
  TRAINCTL_INLINE static void run(const F (&y)[kTile], F (&to)[kPatch]) {
    to[0] = y[0], to[1] = y[0] + y[1], to[2] = y[0] - y[1], to[3] = -y[1];
  }
};
struct G {
  template <class F>
  TRAINCTL_INLINE static void run(const F (&g)[kKernel], F (&to)[kPatch]) {
    const F outer = 0.5F * (g[0] + g[2]), inner = 0.5F * g[1];
    to[0] = g[0], to[1] = outer + inner, to[2] = outer - inner, to[3] = g[2];
  }
};
struct TransposedG {
  template <class F>
  TRAINCTL_INLINE static void run(const F (&u)[kPatch], F (&to)[kKernel]) {
    const F sum = 0.5F * (u[1] + u[2]);
    to[0] = u[0] + sum, to[1] = 0.5F * (u[1] - u[2]), to[2] = sum + u[3];
  }
};

/// Columns, then rows: M x Mᵀ.
template <class M, class F, int kFrom, int kTo>
TRAINCTL_INLINE void both_ways(const F (&from)[kFrom][kFrom], F (&to)[kTo][kTo]) {
  F half[kTo][kFrom];
#pragma GCC unroll 4
  for (int j = 0; j < kFrom; ++j) {
    F column[kFrom], changed[kTo];
#pragma GCC unroll 4
    for (int i = 0; i < kFrom; ++i) column[i] = from[i][j];
    M::run(column, changed);
#pragma GCC unroll 4
    for (int i = 0; i < kTo; ++i) half[i][j] = changed[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < kTo; ++i) M::run(half[i], to[i]);
}

template <class F>
TRAINCTL_INLINE void store_planes(const F (&values)[kPatch][kPatch], float* to, std::int64_t stride) {
#pragma GCC unroll 4
  for (int i = 0; i < kPatch; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kPatch; ++j) store(values[i][j], to + (i * kPatch + j) * stride);
}

/// Where a tile is: its image, and the row and column of its first output.
struct TilePlace {
  std::int64_t image, row, column;
};
TRAINCTL_INLINE TilePlace place_of(const TiledImages& images, std::int64_t tile) {
  const std::int64_t columns = images.tile_columns(), each = images.tile_rows() * columns;
  return {tile / each, tile % each / columns * kTile, tile % columns * kTile};
}

/// M x Mᵀ of squares of pixels, each from `kBefore` pixels before its tile on.
template <class M, int kSide, int kBefore>
struct SquaresToPlanes {
  template <class V>
  TRAINCTL_INLINE static void run(const float* pixels, const TiledImages* images, const Span* tiles,
                                  const Span* channels, const float* zeros, const Planes<float>* planes) {
    for (std::int64_t t = 0; t < tiles->count; ++t) {
      const TilePlace at = place_of(*images, tiles->first + t);
      const float* square[kSide][kSide];
      for (int i = 0; i < kSide; ++i)
        for (int j = 0; j < kSide; ++j) {
          const std::int64_t y = at.row - kBefore + i, x = at.column - kBefore + j;
          const bool is_inside = y >= 0 && y < images->height && x >= 0 && x < images->width;
          square[i][j] = is_inside ? pixels + ((at.image * images->height + y) * images->width + x) * images->channels +
                                         channels->first
                                   : zeros;
        }
      for (std::int64_t panel = 0; panel < channels->count; panel += planes->width) {
        float* to = planes->at(t, panel);
        for (std::int64_t c = 0; c < planes->width; c += V::kLanes) {
          typename V::Floats values[kSide][kSide], changed[kPatch][kPatch];
#pragma GCC unroll 4
          for (int j = 0; j < kSide; ++j)
#pragma GCC unroll 4
            for (int i = 0; i < kSide; ++i) load(square[i][j] + panel + c, values[i][j]);
          both_ways<M>(values, changed);
          store_planes(changed, to + c, planes->stride);
        }
      }
    }
  }
};

struct PlanesToTiles {
  template <class V>
  TRAINCTL_INLINE static void run(const Planes<const float>* planes, const TiledImages* images, const Span* tiles,
                                  const float* bias, float* pixels) {
    for (std::int64_t t = 0; t < tiles->count; ++t) {
      const TilePlace at = place_of(*images, tiles->first + t);
      float* const first =
          pixels + ((at.image * images->height + at.row) * images->width + at.column) * images->channels;
      const bool has_second_row = at.row + 1 < images->height, has_second_column = at.column + 1 < images->width;
      const float* from = planes->at(t, 0);
      for (std::int64_t c = 0; c < images->channels; c += V::kLanes) {
        typename V::Floats values[kPatch][kPatch], changed[kTile][kTile], add;
#pragma GCC unroll 4
        for (int j = 0; j < kPatch; ++j)
#pragma GCC unroll 4
          for (int i = 0; i < kPatch; ++i) load(from + (i * kPatch + j) * planes->stride + c, values[i][j]);
        both_ways<TransposedA>(values, changed);
        load(bias + c, add);
        float* to = first + c;
        store(changed[0][0] + add, to);
        if (has_second_column) store(changed[0][1] + add, to + images->channels);
        if (!has_second_row) continue;
        to += images->width * images->channels;
        store(changed[1][0] + add, to);
        if (has_second_column) store(changed[1][1] + add, to + images->channels);
      }
    }
  }
};

struct TurnedKernelsToPlanes {
  template <class V>
  TRAINCTL_INLINE static void run(const float* kernels, const Kernels* sizes, const Span* some,
                                  const Planes<float>* planes) {
    for (std::int64_t output = some->first; output < some->first + some->count; ++output)
      for (std::int64_t input = 0; input < sizes->inputs; input += V::kLanes) {
        const float* from = kernels + output * kKernel * kKernel * sizes->inputs + input;
        typename V::Floats values[kKernel][kKernel], changed[kPatch][kPatch];
#pragma GCC unroll 4
        for (int i = 0; i < kKernel; ++i)
#pragma GCC unroll 4
          for (int j = 0; j < kKernel; ++j)
            load(from + (kKernel * kKernel - 1 - i * kKernel - j) * sizes->inputs, values[i][j]);
        both_ways<G>(values, changed);
        store_planes(changed, planes->at(output, input), planes->stride);
      }
  }
};

/// Swaps the parts of `kStep` numbers that a transposed matrix has swapped.
template <int kStep, class F, int... kLane>
TRAINCTL_INLINE void swap_parts(F& first, F& second, std::integer_sequence<int, kLane...>) {
  constexpr int kCount = sizeof...(kLane);
  const F low = __builtin_shufflevector(first, second, ((kLane & kStep) != 0 ? kCount + kLane - kStep : kLane)...);
  const F high = __builtin_shufflevector(first, second, ((kLane & kStep) != 0 ? kCount + kLane : kLane + kStep)...);
  first = low;
  second = high;
}
template <class F, int kSide, int kStep = kSide / 2>
TRAINCTL_INLINE void transpose(F (&rows)[kSide]) {
#pragma GCC unroll 16
  for (int r = 0; r < kSide; ++r)
    if ((r & kStep) == 0) swap_parts<kStep>(rows[r], rows[r + kStep], std::make_integer_sequence<int, kSide>());
  if constexpr (kStep > 1) transpose<F, kSide, kStep / 2>(rows);
}

struct KernelsToPlanes {
  template <class V>
  TRAINCTL_INLINE static void run(const float* kernels, const Kernels* sizes, const Span* some,
                                  const Planes<float>* planes) {
    constexpr int kSide = V::kLanes;
    for (std::int64_t output = some->first; output < some->first + some->count; output += kSide)
      for (std::int64_t input = 0; input < sizes->inputs; input += kSide) {
        typename V::Floats block[kWinogradPlanes][kSide];  // planes, outputs, and inputs in a vector
        for (int o = 0; o < kSide; ++o) {
          const float* from = kernels + (output + o) * kKernel * kKernel * sizes->inputs + input;
          typename V::Floats values[kKernel][kKernel], changed[kPatch][kPatch];
#pragma GCC unroll 4
          for (int i = 0; i < kKernel; ++i)
#pragma GCC unroll 4
            for (int j = 0; j < kKernel; ++j) load(from + (i * kKernel + j) * sizes->inputs, values[i][j]);
          both_ways<G>(values, changed);
#pragma GCC unroll 4
          for (int i = 0; i < kPatch; ++i)
#pragma GCC unroll 4
            for (int j = 0; j < kPatch; ++j) block[i * kPatch + j][o] = changed[i][j];
        }
        for (int p = 0; p < kWinogradPlanes; ++p) {
          transpose(block[p]);
          for (int i = 0; i < kSide; ++i) store(block[p][i], planes->at(input + i, output) + p * planes->stride);
        }
      }
  }
};

struct PlanesToKernels {
  template <class V>
  TRAINCTL_INLINE static void run(const float* sums, std::int64_t num_sums, const Kernels* sizes, const Span* some,
                                  float* kernels) {
    const std::int64_t plane = sizes->outputs * sizes->inputs;
    for (std::int64_t output = some->first; output < some->first + some->count; ++output)
      for (std::int64_t input = 0; input < sizes->inputs; input += V::kLanes) {
        typename V::Floats values[kPatch][kPatch], changed[kKernel][kKernel];
        for (int p = 0; p < kWinogradPlanes; ++p) {
          const float* from = sums + p * plane + output * sizes->inputs + input;
          typename V::Floats& sum = values[p / kPatch][p % kPatch];
          load(from, sum);
          for (std::int64_t s = 1; s < num_sums; ++s) {
            typename V::Floats other;
            load(from + s * kWinogradPlanes * plane, other);
            sum += other;
          }
        }
        both_ways<TransposedG>(values, changed);
        float* to = kernels + output * kKernel * kKernel * sizes->inputs + input;
        for (int i = 0; i < kKernel; ++i)
          for (int j = 0; j < kKernel; ++j) store(changed[i][j], to + (i * kKernel + j) * sizes->inputs);
      }
  }
};

}  // namespace

void patches_to_planes(const float* pixels, const TiledImages& images, const Span& tiles, const Span& channels,
                       const float* zeros, const Planes<float>& planes) {
  vectorized<SquaresToPlanes<TransposedB, kPatch, 1>>(pixels, &images, &tiles, &channels, zeros, &planes);
}

void tiles_to_planes(const float* pixels, const TiledImages& images, const Span& tiles, const float* zeros,
                     const Planes<float>& planes) {
  const Span channels{0, images.channels};
  vectorized<SquaresToPlanes<A, kTile, 0>>(pixels, &images, &tiles, &channels, zeros, &planes);
}

void planes_to_tiles(const Planes<const float>& planes, const TiledImages& images, const Span& tiles, const float* bias,
                     float* pixels) {
  vectorized<PlanesToTiles>(&planes, &images, &tiles, bias, pixels);
}

void kernels_to_planes(const float* kernels, const Kernels& sizes, const Span& some, const Planes<float>& planes) {
  vectorized<KernelsToPlanes>(kernels, &sizes, &some, &planes);
}

void turned_kernels_to_planes(const float* kernels, const Kernels& sizes, const Span& some,
                              const Planes<float>& planes) {
  vectorized<TurnedKernelsToPlanes>(kernels, &sizes, &some, &planes);
}

void planes_to_kernels(const float* sums, std::int64_t num_sums, const Kernels& sizes, const Span& some,
                       float* kernels) {
  vectorized<PlanesToKernels>(sums, num_sums, &sizes, &some, kernels);
}

}  // namespace trainctl::kernels
