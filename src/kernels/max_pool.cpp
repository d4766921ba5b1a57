#include "kernels/max_pool.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/error.h"
#include "kernels/portable.h"
#include "kernels/vector_math.h"
#include "runtime/fake_tensor.h"

namespace trainctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int32_t kNone = 255;  // the place of no pixel of a window: ReLU left nothing

/// Images before and after pooling, of the same channels.
struct PoolShape {
  std::int64_t height, width, pooled_height, pooled_width, channels;
};

/// Places in windows, one byte each.
template <class V>
TRAINCTL_INLINE void store_places(const typename V::Ints& places, std::uint8_t* to) {
  for (int lane = 0; lane < V::kLanes; ++lane) to[lane] = static_cast<std::uint8_t>(places[lane]);
}
template <class V>
TRAINCTL_INLINE void load_places(const std::uint8_t* from, typename V::Ints& places) {
  for (int lane = 0; lane < V::kLanes; ++lane) places[lane] = from[lane];
}

/// Pools one row of outputs, number `row` of its image.
template <int kSide, int kStride, int kPadding>
struct PoolRow {
  template <class V>
  TRAINCTL_INLINE static void run(const float* image, const PoolShape* shape, std::int64_t row, float* output,
                                  std::uint8_t* places) {
    using Floats = typename V::Floats;
    using Ints = typename V::Ints;
    const std::int64_t top = row * kStride - kPadding;
    const std::int64_t first_row = std::max<std::int64_t>(0, -top);
    const std::int64_t last_row = std::min<std::int64_t>(kSide, shape->height - top);
    for (std::int64_t column = 0; column < shape->pooled_width; ++column) {
      const std::int64_t left = column * kStride - kPadding;
      const std::int64_t first_column = std::max<std::int64_t>(0, -left);
      const std::int64_t last_column = std::min<std::int64_t>(kSide, shape->width - left);
      for (std::int64_t c = 0; c < shape->channels; c += V::kLanes) {
        const float* window = image + (top * shape->width + left) * shape->channels + c;
        Floats best = Floats{} - std::numeric_limits<float>::infinity(), pixel;
        Ints place = Ints{} + kNone;
        for (std::int64_t i = first_row; i < last_row; ++i)
          for (std::int64_t j = first_column; j < last_column; ++j) {
            load(window + (i * shape->width + j) * shape->channels, pixel);
            const Ints is_larger = (pixel > best) | (pixel != pixel);
            best = is_larger ? pixel : best;
            place = is_larger ? Ints{} + static_cast<std::int32_t>(i * kSide + j) : place;
          }
        const Ints is_off = best <= 0.0F;
        store(is_off ? Floats{} : best, output + column * shape->channels + c);
        store_places<V>(is_off ? Ints{} + kNone : place, places + column * shape->channels + c);
      }
    }
  }
};

/// A window that has a pixel.
struct PoolCover {
  std::int64_t output;  // offset of its output's first channel
  std::int32_t place;   // of the pixel in it
};

/// Writes the gradient of one row of inputs, number `row` of its image: each pixel asks the windows that have it.
template <int kSide, int kStride, int kPadding>
struct UnpoolRow {
  template <class V>
  TRAINCTL_INLINE static void run(const float* gradient, const std::uint8_t* places, const PoolShape* shape,
                                  std::int64_t row, float* result) {
    using Floats = typename V::Floats;
    using Ints = typename V::Ints;
    constexpr int kMostCovers = (kSide + kStride - 1) / kStride;
    for (std::int64_t column = 0; column < shape->width; ++column) {
      PoolCover covers[kMostCovers * kMostCovers];
      int num_covers = 0;
      for (std::int64_t i = (row + kPadding) % kStride; i < kSide; i += kStride)
        for (std::int64_t j = (column + kPadding) % kStride; j < kSide; j += kStride) {
          const std::int64_t y = (row + kPadding - i) / kStride, x = (column + kPadding - j) / kStride;
          if (y < 0 || y >= shape->pooled_height || x < 0 || x >= shape->pooled_width) continue;
          covers[num_covers++] = {(y * shape->pooled_width + x) * shape->channels,
                                  static_cast<std::int32_t>(i * kSide + j)};
        }
      for (std::int64_t c = 0; c < shape->channels; c += V::kLanes) {
        Floats sum{};
        for (int cover = 0; cover < num_covers; ++cover) {
          const auto& [output, wanted] = covers[cover];
          Floats g;
          Ints place{};
          load(gradient + output + c, g);
          load_places<V>(places + output + c, place);
          sum += place == wanted ? g : Floats{};
        }
        store(sum, result + column * shape->channels + c);
      }
    }
  }
};

/// Does that where no windows overlap, for the pixels of the windows of output row `row`, and those beyond the last
/// window.
template <int kSide>
struct SpreadRow {
  template <class V>
  TRAINCTL_INLINE static void run(const float* gradient, const std::uint8_t* places, const PoolShape* shape,
                                  std::int64_t row, float* image) {
    using Floats = typename V::Floats;
    using Ints = typename V::Ints;
    const std::int64_t pitch = shape->width * shape->channels, used = shape->pooled_width * kSide * shape->channels;
    float* const first = image + row * kSide * pitch;
    for (std::int64_t column = 0; column < shape->pooled_width; ++column)
      for (std::int64_t c = 0; c < shape->channels; c += V::kLanes) {
        const std::int64_t from = (row * shape->pooled_width + column) * shape->channels + c;
        Floats g;
        Ints place{};
        load(gradient + from, g);
        load_places<V>(places + from, place);
#pragma GCC unroll 2
        for (int i = 0; i < kSide; ++i)
#pragma GCC unroll 2
          for (int j = 0; j < kSide; ++j)
            store(place == i * kSide + j ? g : Floats{},
                  first + i * pitch + (column * kSide + j) * shape->channels + c);
      }
    for (int i = 0; i < kSide; ++i) std::fill(first + i * pitch + used, first + (i + 1) * pitch, 0.0F);
    if (row + 1 == shape->pooled_height) std::fill(first + kSide * pitch, image + shape->height * pitch, 0.0F);
  }
};

/// Calls row(image, its row) for all rows of all images, in several threads.
template <class Row>
void over_image_rows(std::int64_t images, std::int64_t rows, const Row& row) {
  at::parallel_for(0, images * rows, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) row(i / rows, i % rows);
  });
}

template <int kSide, int kStride, int kPadding>
struct ReluOfMaxPool final : torch::autograd::Function<ReluOfMaxPool<kSide, kStride, kPadding>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input) {
    RECORD_FUNCTION("trainctl::relu_of_max_pool", std::vector<c10::IValue>({input}));
    const auto pooled = [](std::int64_t length) { return (length + 2 * kPadding - kSide) / kStride + 1; };
    const PoolShape shape{input.size(2), input.size(3), pooled(input.size(2)), pooled(input.size(3)), input.size(1)};
    const auto empty = [&](at::ScalarType type) {
      return at::empty({input.size(0), shape.channels, shape.pooled_height, shape.pooled_width},
                       input.options().dtype(type).memory_format(at::MemoryFormat::ChannelsLast));
    };
    at::Tensor output = empty(at::kFloat), places = empty(at::kByte);
    context->saved_data["height"] = shape.height;
    context->saved_data["width"] = shape.width;
    context->save_for_backward({places});
    if (runtime::is_fake(input)) return output;
    const auto* x = input.const_data_ptr<float>();
    auto* y = output.mutable_data_ptr<float>();
    auto* chosen = places.mutable_data_ptr<std::uint8_t>();
    over_image_rows(input.size(0), shape.pooled_height, [&](std::int64_t image, std::int64_t row) {
      const std::int64_t to = (image * shape.pooled_height + row) * shape.pooled_width * shape.channels;
      vectorized_up_to_avx2<PoolRow<kSide, kStride, kPadding>>(x + image * shape.height * shape.width * shape.channels,
                                                               &shape, row, y + to, chosen + to);
    });
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const at::Tensor places = context->get_saved_variables()[0];
    const at::Tensor gradient = output_gradients[0].contiguous(at::MemoryFormat::ChannelsLast);
    RECORD_FUNCTION("trainctl::relu_of_max_pool_backward", std::vector<c10::IValue>({gradient}));
    const PoolShape shape{context->saved_data["height"].toInt(), context->saved_data["width"].toInt(), places.size(2),
                          places.size(3), places.size(1)};
    at::Tensor input_gradient = at::empty({places.size(0), shape.channels, shape.height, shape.width},
                                          gradient.options().memory_format(at::MemoryFormat::ChannelsLast));
    if (runtime::is_fake(gradient)) return {input_gradient};
    const auto* dy = gradient.const_data_ptr<float>();
    const auto* chosen = places.const_data_ptr<std::uint8_t>();
    auto* dx = input_gradient.mutable_data_ptr<float>();
    const std::int64_t pooled_size = shape.pooled_height * shape.pooled_width * shape.channels;
    const std::int64_t row_size = shape.width * shape.channels;
    if constexpr (kSide == kStride)
      over_image_rows(places.size(0), shape.pooled_height, [&](std::int64_t image, std::int64_t row) {
        vectorized_up_to_avx2<SpreadRow<kSide>>(dy + image * pooled_size, chosen + image * pooled_size, &shape, row,
                                                dx + image * shape.height * row_size);
      });
    else
      over_image_rows(places.size(0), shape.height, [&](std::int64_t image, std::int64_t row) {
        vectorized_up_to_avx2<UnpoolRow<kSide, kStride, kPadding>>(dy + image * pooled_size,
                                                                   chosen + image * pooled_size, &shape, row,
                                                                   dx + (image * shape.height + row) * row_size);
      });
    return {input_gradient};
  }
};

bool suits_loops(const at::Tensor& input, const PoolWindow& window) {
  const std::int64_t least = window.side - 2 * window.padding;
  return input.is_cpu() && input.scalar_type() == at::kFloat && input.dim() == 4 &&
         input.is_contiguous(at::MemoryFormat::ChannelsLast) && input.size(1) % kMaxLanes == 0 &&
         input.size(2) >= least && input.size(3) >= least && !PortableOperators::are_wanted();
}

}  // namespace

at::Tensor relu_of_max_pool(const at::Tensor& input, const PoolWindow& window) {
  const bool is_small = window.side == kPool2x2.side;
  core::ensure(is_small || window.side == kPool3x3.side, "relu_of_max_pool was given another window");
  if (!suits_loops(input, window)) {
    at::Tensor value = at::max_pool2d(input, {window.side, window.side}, {window.stride, window.stride},
                                      {window.padding, window.padding});
    return at::relu_(value);
  }
  return is_small ? ReluOfMaxPool<2, 2, 0>::apply(input) : ReluOfMaxPool<3, 2, 1>::apply(input);
}

}  // namespace trainctl::kernels
