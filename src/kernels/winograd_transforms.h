// The transforms of Winograd's F(2 × 2, 3 × 3) between images or kernels and the 16 planes that are multiplied. For
// this folder alone.
#pragma once

#include <cstdint>

namespace trainctl::kernels {

constexpr std::int64_t kWinogradPlanes = 16;

/// Images [batch, height, width, channels], cut into tiles of 2 × 2 pixels.
struct TiledImages {
  std::int64_t batch;
  std::int64_t height;
  std::int64_t width;
  std::int64_t channels;
  std::int64_t tile_rows() const { return (height + 1) / 2; }
  std::int64_t tile_columns() const { return (width + 1) / 2; }
  std::int64_t tiles() const { return batch * tile_rows() * tile_columns(); }
};

/// From `first` on, `count` of them.
struct Span {
  std::int64_t first;
  std::int64_t count;
};

/// 16 matrices. Each lies in panels of `width` columns, which have `rows` rows; a panel as wide as the matrix makes
/// dense rows.
template <class T>
struct Planes {
  T* data;
  std::int64_t stride;  // from a plane to the next
  std::int64_t rows;
  std::int64_t width;
  T* at(std::int64_t row, std::int64_t column) const {
    return data + column / width * (rows * width) + row * width + column % width;
  }
};

/// A row is a tile of `tiles`, a column a channel of `channels`: of the tile and its neighbours within a pixel, Bᵀ d B.
/// Pixels beyond the image are read from `zeros`.
void patches_to_planes(const float* pixels, const TiledImages& images, const Span& tiles, const Span& channels,
                       const float* zeros, const Planes<float>& planes);
/// Writes the tiles' outputs, Aᵀ m A + bias. A row is a tile, a column a channel.
void planes_to_tiles(const Planes<const float>& planes, const TiledImages& images, const Span& tiles, const float* bias,
                     float* pixels);
/// The adjoint of planes_to_tiles, of the outputs' gradients.
void tiles_to_planes(const float* pixels, const TiledImages& images, const Span& tiles, const float* zeros,
                     const Planes<float>& planes);

/// Kernels [outputs, 3, 3, inputs].
struct Kernels {
  std::int64_t outputs;
  std::int64_t inputs;
};
/// G g Gᵀ. A row is an input, a column an output. `some` are outputs, in multiples of 16.
void kernels_to_planes(const float* kernels, const Kernels& sizes, const Span& some, const Planes<float>& planes);
/// Does the same to kernels turned by half a circle, for the input's gradient. A row is an output, a column an input.
void turned_kernels_to_planes(const float* kernels, const Kernels& sizes, const Span& some,
                              const Planes<float>& planes);
/// Gᵀ u G, the adjoint of kernels_to_planes, of the sum of `num_sums` gradients [16, outputs, inputs].
void planes_to_kernels(const float* sums, std::int64_t num_sums, const Kernels& sizes, const Span& some,
                       float* kernels);

}  // namespace trainctl::kernels
