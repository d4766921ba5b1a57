// Whether Winograd's F(2x2, 3x3) (https://arxiv.org/abs/1509.09308) pays on this CPU: the three convolutions of a 3 x 3
// layer's training step, against LibTorch's (oneDNN) on channels-last images. Prints a Markdown table of milliseconds,
// and the largest errors against fp64, relative to the largest output.
//   winograd [THREADS]
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/vector_math.h"
#include "runtime/memory.h"

namespace {

using namespace trainctl;
using kernels::load;
using kernels::store;

constexpr std::int64_t kTile = 2;   // rows and columns of outputs
constexpr std::int64_t kPatch = 4;  // of inputs that a tile needs
constexpr std::int64_t kPlanes = kPatch * kPatch;

struct Images {
  std::int64_t batch, height, width;
  std::int64_t tile_rows() const { return (height + kTile - 1) / kTile; }
  std::int64_t tile_columns() const { return (width + kTile - 1) / kTile; }
  std::int64_t tiles() const { return batch * tile_rows() * tile_columns(); }
};

/// Where a tile is: its image, and the row and column of its first output.
struct Place {
  std::int64_t image, row, column;
};
Place place_of(const Images& images, std::int64_t tile) {
  const std::int64_t in_image = tile % (images.tile_rows() * images.tile_columns());
  return {tile / (images.tile_rows() * images.tile_columns()), in_image / images.tile_columns() * kTile,
          in_image % images.tile_columns() * kTile};
}

/// Bᵀ d B of `count` tiles from `first` on: [16, count, channels]. Pixels beyond the image are 0, as a padding of 1 has
/// them.
struct PatchesToPlanes {
  template <class V>
  TRAINCTL_INLINE static void run(const float* pixels, const Images* images, std::int64_t channels, std::int64_t first,
                                  std::int64_t count, const float* zeros, float* planes) {
    const std::int64_t plane = count * channels;
    for (std::int64_t t = 0; t < count; ++t) {
      const Place at = place_of(*images, first + t);
      const float* patch[kPatch][kPatch];
      for (std::int64_t i = 0; i < kPatch; ++i)
        for (std::int64_t j = 0; j < kPatch; ++j) {
          const std::int64_t y = at.row - 1 + i, x = at.column - 1 + j;
          const bool is_inside = y >= 0 && y < images->height && x >= 0 && x < images->width;
          patch[i][j] = is_inside ? pixels + ((at.image * images->height + y) * images->width + x) * channels : zeros;
        }
      for (std::int64_t c = 0; c < channels; c += V::kLanes) {
        typename V::Floats rows[kPatch][kPatch];
        for (std::int64_t j = 0; j < kPatch; ++j) {
          typename V::Floats d0, d1, d2, d3;
          load(patch[0][j] + c, d0), load(patch[1][j] + c, d1), load(patch[2][j] + c, d2), load(patch[3][j] + c, d3);
          rows[0][j] = d0 - d2, rows[1][j] = d1 + d2, rows[2][j] = d2 - d1, rows[3][j] = d1 - d3;
        }
        float* to = planes + t * channels + c;
        for (std::int64_t i = 0; i < kPatch; ++i, to += kPatch * plane) {
          const auto& r = rows[i];
          store(r[0] - r[2], to), store(r[1] + r[2], to + plane), store(r[2] - r[1], to + 2 * plane);
          store(r[1] - r[3], to + 3 * plane);
        }
      }
    }
  }
};

/// Aᵀ m A of planes [16, count, channels] as the tiles' outputs.
struct PlanesToTiles {
  template <class V>
  TRAINCTL_INLINE static void run(const float* planes, const Images* images, std::int64_t channels, std::int64_t first,
                                  std::int64_t count, float* pixels) {
    const std::int64_t plane = count * channels;
    for (std::int64_t t = 0; t < count; ++t) {
      const Place at = place_of(*images, first + t);
      for (std::int64_t c = 0; c < channels; c += V::kLanes) {
        typename V::Floats rows[kTile][kPatch];
        for (std::int64_t j = 0; j < kPatch; ++j) {
          const float* from = planes + j * plane + t * channels + c;
          typename V::Floats m0, m1, m2, m3;
          load(from, m0), load(from + 4 * plane, m1), load(from + 8 * plane, m2), load(from + 12 * plane, m3);
          rows[0][j] = m0 + m1 + m2, rows[1][j] = m1 - m2 - m3;
        }
        for (std::int64_t i = 0; i < kTile && at.row + i < images->height; ++i) {
          float* to = pixels + ((at.image * images->height + at.row + i) * images->width + at.column) * channels + c;
          const auto& r = rows[i];
          store(r[0] + r[1] + r[2], to);
          if (at.column + 1 < images->width) store(r[1] - r[2] - r[3], to + channels);
        }
      }
    }
  }
};

/// A y Aᵀ of the outputs' gradients, the adjoint of PlanesToTiles: [16, count, channels].
struct TilesToPlanes {
  template <class V>
  TRAINCTL_INLINE static void run(const float* pixels, const Images* images, std::int64_t channels, std::int64_t first,
                                  std::int64_t count, const float* zeros, float* planes) {
    const std::int64_t plane = count * channels;
    for (std::int64_t t = 0; t < count; ++t) {
      const Place at = place_of(*images, first + t);
      const float* tile[kTile][kTile];
      for (std::int64_t i = 0; i < kTile; ++i)
        for (std::int64_t j = 0; j < kTile; ++j) {
          const std::int64_t y = at.row + i, x = at.column + j;
          const bool is_inside = y < images->height && x < images->width;
          tile[i][j] = is_inside ? pixels + ((at.image * images->height + y) * images->width + x) * channels : zeros;
        }
      for (std::int64_t c = 0; c < channels; c += V::kLanes) {
        typename V::Floats rows[kPatch][kTile];
        for (std::int64_t j = 0; j < kTile; ++j) {
          typename V::Floats y0, y1;
          load(tile[0][j] + c, y0), load(tile[1][j] + c, y1);
          rows[0][j] = y0, rows[1][j] = y0 + y1, rows[2][j] = y0 - y1, rows[3][j] = -y1;
        }
        float* to = planes + t * channels + c;
        for (std::int64_t i = 0; i < kPatch; ++i, to += kPatch * plane) {
          const auto& r = rows[i];
          store(r[0], to), store(r[0] + r[1], to + plane), store(r[0] - r[1], to + 2 * plane);
          store(-r[1], to + 3 * plane);
        }
      }
    }
  }
};

/// G g Gᵀ: [3, 3, size] -> [16, size].
struct KernelToPlanes {
  template <class V>
  TRAINCTL_INLINE static void run(const float* kernel, std::int64_t size, float* planes) {
    for (std::int64_t c = 0; c < size; c += V::kLanes) {
      typename V::Floats half[kPatch][3];
      for (std::int64_t j = 0; j < 3; ++j) {
        typename V::Floats g0, g1, g2;
        load(kernel + j * size + c, g0), load(kernel + (3 + j) * size + c, g1), load(kernel + (6 + j) * size + c, g2);
        half[0][j] = g0, half[1][j] = 0.5F * (g0 + g1 + g2), half[2][j] = 0.5F * (g0 - g1 + g2), half[3][j] = g2;
      }
      float* to = planes + c;
      for (std::int64_t i = 0; i < kPatch; ++i, to += kPatch * size) {
        const auto& h = half[i];
        store(h[0], to), store(0.5F * (h[0] + h[1] + h[2]), to + size);
        store(0.5F * (h[0] - h[1] + h[2]), to + 2 * size), store(h[2], to + 3 * size);
      }
    }
  }
};

/// Gᵀ u G, the adjoint of KernelToPlanes: [16, size] -> [3, 3, size].
struct PlanesToKernel {
  template <class V>
  TRAINCTL_INLINE static void run(const float* planes, std::int64_t size, float* kernel) {
    for (std::int64_t c = 0; c < size; c += V::kLanes) {
      typename V::Floats half[3][kPatch];
      for (std::int64_t j = 0; j < kPatch; ++j) {
        const float* from = planes + j * size + c;
        typename V::Floats u0, u1, u2, u3;
        load(from, u0), load(from + 4 * size, u1), load(from + 8 * size, u2), load(from + 12 * size, u3);
        half[0][j] = u0 + 0.5F * (u1 + u2), half[1][j] = 0.5F * (u1 - u2), half[2][j] = 0.5F * (u1 + u2) + u3;
      }
      float* to = kernel + c;
      for (std::int64_t i = 0; i < 3; ++i, to += 3 * size) {
        const auto& h = half[i];
        store(h[0] + 0.5F * (h[1] + h[2]), to), store(0.5F * (h[1] - h[2]), to + size);
        store(0.5F * (h[1] + h[2]) + h[3], to + 2 * size);
      }
    }
  }
};

/// The planes [16, inputs, outputs] of a kernel [outputs, inputs, 3, 3]. With `turned`, those of the input's gradient,
/// [16, outputs, inputs]: of the kernel turned by half a circle.
at::Tensor kernel_planes(const at::Tensor& weight, bool turned) {
  const at::Tensor kernel =
      (turned ? weight.flip({2, 3}).permute({2, 3, 0, 1}) : weight.permute({2, 3, 1, 0})).contiguous();
  at::Tensor planes = at::empty({kPlanes, kernel.size(2), kernel.size(3)});
  kernels::vectorized<KernelToPlanes>(kernel.const_data_ptr<float>(), kernel.numel() / 9,
                                      planes.mutable_data_ptr<float>());
  return planes;
}

/// The gradient [outputs, inputs, 3, 3] of a kernel, of that of its planes [16, inputs, outputs].
at::Tensor kernel_gradient(const at::Tensor& planes) {
  const at::Tensor gradient = at::empty({3, 3, planes.size(1), planes.size(2)});
  kernels::vectorized<PlanesToKernel>(planes.const_data_ptr<float>(), planes.numel() / kPlanes,
                                      gradient.mutable_data_ptr<float>());
  return gradient.permute({3, 2, 0, 1}).contiguous(at::MemoryFormat::ChannelsLast);
}

/// The first [16, rows, columns] of a thread's memory.
at::Tensor planes_of(const at::Tensor& memory, std::int64_t rows, std::int64_t columns) {
  return memory.narrow(0, 0, kPlanes * rows * columns).view({kPlanes, rows, columns});
}

Images images_of(const at::Tensor& pixels) {
  return {pixels.size(0), pixels.size(2), pixels.size(3)};
}

/// Tiles whose planes a core's second cache holds.
std::int64_t tiles_at_once(std::int64_t channels) {
  return std::clamp<std::int64_t>((1 << 18) / (kPlanes * channels) * 2, 32, 256);
}

/// `kernel`: [16, inputs, outputs].
void convolve(const at::Tensor& input, const at::Tensor& kernel, at::Tensor& output) {
  const Images images = images_of(input);
  const std::int64_t inputs = input.size(1), outputs = output.size(1), block = tiles_at_once(std::max(inputs, outputs));
  const auto* from = input.const_data_ptr<float>();
  auto* to = output.mutable_data_ptr<float>();
  at::parallel_for(0, (images.tiles() + block - 1) / block, 1, [&](std::int64_t begin, std::int64_t end) {
    const at::Tensor patches = at::empty({kPlanes * block * inputs});
    const at::Tensor products = at::empty({kPlanes * block * outputs});
    const std::vector<float> zeros(static_cast<std::size_t>(inputs), 0);
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = b * block, count = std::min(block, images.tiles() - first);
      kernels::vectorized<PatchesToPlanes>(from, &images, inputs, first, count, zeros.data(),
                                           patches.mutable_data_ptr<float>());
      at::Tensor product = planes_of(products, count, outputs);
      at::bmm_out(product, planes_of(patches, count, inputs), kernel);
      kernels::vectorized<PlanesToTiles>(products.const_data_ptr<float>(), &images, outputs, first, count, to);
    }
  });
}

/// The kernel's gradient: each thread sums over its tiles.
at::Tensor weight_gradient(const at::Tensor& input, const at::Tensor& gradient) {
  const Images images = images_of(input);
  const std::int64_t inputs = input.size(1), outputs = gradient.size(1);
  const std::int64_t block = std::max<std::int64_t>(tiles_at_once(std::max(inputs, outputs)), inputs);
  const std::int64_t threads = at::get_num_threads(), blocks = (images.tiles() + block - 1) / block;
  const at::Tensor sums = at::zeros({threads, kPlanes, inputs, outputs});
  at::parallel_for(0, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    const at::Tensor patches = at::empty({kPlanes * block * inputs}), tiles = at::empty({kPlanes * block * outputs});
    const std::vector<float> zeros(static_cast<std::size_t>(std::max(inputs, outputs)), 0);
    for (std::int64_t thread = begin; thread < end; ++thread)
      for (std::int64_t b = blocks * thread / threads; b < blocks * (thread + 1) / threads; ++b) {
        const std::int64_t first = b * block, count = std::min(block, images.tiles() - first);
        kernels::vectorized<PatchesToPlanes>(input.const_data_ptr<float>(), &images, inputs, first, count, zeros.data(),
                                             patches.mutable_data_ptr<float>());
        kernels::vectorized<TilesToPlanes>(gradient.const_data_ptr<float>(), &images, outputs, first, count,
                                           zeros.data(), tiles.mutable_data_ptr<float>());
        sums[thread].baddbmm_(planes_of(patches, count, inputs).transpose(1, 2), planes_of(tiles, count, outputs));
      }
  });
  return kernel_gradient(threads == 1 ? sums[0] : sums.sum(0));
}

/// Lower quartiles of both, in turn for half a second.
template <class First, class Second>
std::pair<double, double> milliseconds(const First& first, const Second& second) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times[2];
  const auto run = [&](const auto& work, std::vector<double>& into) {
    const auto begin = Clock::now();
    work();
    into.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  };
  first(), second();
  for (const auto end = Clock::now() + std::chrono::milliseconds(500); Clock::now() < end || times[0].size() < 5;)
    run(first, times[0]), run(second, times[1]);
  for (auto& one : times) std::sort(one.begin(), one.end());
  return {times[0][times[0].size() / 4], times[1][times[1].size() / 4]};
}

double error(const at::Tensor& tensor, const at::Tensor& exact) {
  return tensor.to(at::kDouble).sub(exact).abs().max().item<double>() / exact.abs().max().item<double>();
}

struct Layer {
  std::int64_t batch, inputs, outputs, side;
};

template <class Direct, class Winograd>
void print_row(const Layer& layer, const char* what, const at::Tensor& exact, const Direct& direct,
               const Winograd& winograd) {
  at::Tensor ours, theirs;
  const auto [direct_ms, winograd_ms] = milliseconds([&] { theirs = direct(); }, [&] { ours = winograd(); });
  std::printf("| [%ld, %ld, %ld, %ld] -> %ld | %s | %.2f | %.2f | %.2f | %.1e | %.1e |\n", layer.batch, layer.inputs,
              layer.side, layer.side, layer.outputs, what, direct_ms, winograd_ms, direct_ms / winograd_ms,
              error(theirs, exact), error(ours, exact));
  std::fflush(stdout);
}

void compare(const Layer& layer) {
  const auto images = [&](std::int64_t channels) {
    return at::randn({layer.batch, channels, layer.side, layer.side}).contiguous(at::MemoryFormat::ChannelsLast);
  };
  const at::Tensor input = images(layer.inputs), gradient = images(layer.outputs);
  const at::Tensor weight = at::randn({layer.outputs, layer.inputs, 3, 3}).mul(0.05);
  const at::Tensor packed = weight.contiguous(at::MemoryFormat::ChannelsLast);
  const auto forward = [](const at::Tensor& x, const at::Tensor& w) {
    return at::convolution(x, w, {}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1);
  };
  const auto backward = [](const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w, bool of_input) {
    const auto both =
        at::convolution_backward(dy, x, w, {}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1, {of_input, !of_input, false});
    return of_input ? std::get<0>(both) : std::get<1>(both);
  };
  const at::Tensor x = input.to(at::kDouble), dy = gradient.to(at::kDouble), w = weight.to(at::kDouble);
  print_row(
      layer, "forward", forward(x, w), [&] { return forward(input, packed); },
      [&] {
        at::Tensor output = at::empty_like(gradient);
        convolve(input, kernel_planes(weight, false), output);
        return output;
      });
  print_row(
      layer, "input's gradient", backward(dy, x, w, true), [&] { return backward(gradient, input, packed, true); },
      [&] {
        at::Tensor output = at::empty_like(input);
        convolve(gradient, kernel_planes(weight, true), output);
        return output;
      });
  print_row(
      layer, "weight's gradient", backward(dy, x, w, false), [&] { return backward(gradient, input, packed, false); },
      [&] { return weight_gradient(input, gradient); });
}

}  // namespace

int main(int argc, char** argv) {
  const at::NoGradGuard no_grad;
  if (argc > 1) at::set_num_threads(std::atoi(argv[1]));
  runtime::install_host_allocator(runtime::HostMemory::cached);
  std::printf(
      "| images -> channels | of | direct ms | Winograd ms | times faster | error, direct | error, Winograd |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Layer& layer : {Layer{32, 64, 64, 56}, Layer{32, 128, 128, 28}, Layer{32, 256, 256, 14},
                             Layer{32, 512, 512, 7}, Layer{128, 16, 16, 32}, Layer{128, 32, 32, 16},
                             Layer{128, 64, 64, 8}, Layer{128, 32, 64, 28}, Layer{128, 64, 128, 14}})
    compare(layer);
}
