#include "kernels/winograd.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/portable.h"
#include "kernels/tile_product.h"
#include "kernels/vector_math.h"
#include "kernels/winograd_transforms.h"
#include "runtime/fake_tensor.h"

namespace trainctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kMostTilesAtOnce = 64;  // their planes lie in a core's second cache
constexpr std::int64_t kFewestTilesAtOnce = 16;
constexpr std::int64_t kFewestChannels = 32;
constexpr std::int64_t kFewestTiles = 128;

bool is_channels_last(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.dim() == 4 &&
         tensor.is_contiguous(at::MemoryFormat::ChannelsLast);
}

TiledImages images_of(const at::Tensor& pixels) {
  return {.batch = pixels.size(0), .height = pixels.size(2), .width = pixels.size(3), .channels = pixels.size(1)};
}

Kernels sizes_of(const at::Tensor& weight) {
  return {.outputs = weight.size(0), .inputs = weight.size(1)};
}

/// Columns of a panel that tile_product() takes at once; channels are multiples of 16.
std::int64_t panel_width(std::int64_t channels) {
  return channels % (2 * kMaxLanes) == 0 ? 2 * kMaxLanes : kMaxLanes;
}

/// Planes of `rows` × `columns`. A plane is a little longer than its matrix. With sizes of powers of two, all planes
/// would else fall on the same few lines of the cache.
class PlaneMemory {
 public:
  PlaneMemory(std::int64_t rows, std::int64_t columns, std::int64_t width)
      : stride_(rows * columns + kMaxLanes), width_(width), memory_(at::empty({kWinogradPlanes * stride_})) {}
  Planes<float> planes(std::int64_t rows) {
    return {.data = memory_.mutable_data_ptr<float>(), .stride = stride_, .rows = rows, .width = width_};
  }
  Planes<const float> planes(std::int64_t rows) const {
    return {.data = memory_.const_data_ptr<float>(), .stride = stride_, .rows = rows, .width = width_};
  }

 private:
  std::int64_t stride_;
  std::int64_t width_;
  at::Tensor memory_;
};

enum class Of { output, input_gradient };

/// The right factors of the products: [inputs, outputs], or, for the input's gradient, [outputs, inputs].
PlaneMemory kernel_planes(const at::Tensor& weight, Of of) {
  const Kernels sizes = sizes_of(weight);
  const std::int64_t rows = of == Of::output ? sizes.inputs : sizes.outputs;
  const std::int64_t columns = of == Of::output ? sizes.outputs : sizes.inputs;
  PlaneMemory memory(rows, columns, panel_width(columns));
  if (runtime::is_fake(weight)) return memory;
  const Planes<float> planes = memory.planes(rows);
  const auto* kernels = weight.const_data_ptr<float>();
  at::parallel_for(0, sizes.outputs / kMaxLanes, 1, [&](std::int64_t begin, std::int64_t end) {
    const Span some{begin * kMaxLanes, (end - begin) * kMaxLanes};
    of == Of::output ? kernels_to_planes(kernels, sizes, some, planes)
                     : turned_kernels_to_planes(kernels, sizes, some, planes);
  });
  return memory;
}

/// The tiles in blocks, of which each thread should get one.
struct TileBlocks {
  std::int64_t tiles;
  std::int64_t size;
  std::int64_t count() const { return (tiles + size - 1) / size; }
  Span tiles_of(std::int64_t block) const { return {block * size, std::min(size, tiles - block * size)}; }
};
TileBlocks blocks_of(const TiledImages& images) {
  const std::int64_t each = images.tiles() / at::get_num_threads() / kFewestTilesAtOnce * kFewestTilesAtOnce;
  return {.tiles = images.tiles(), .size = std::clamp(each, kFewestTilesAtOnce, kMostTilesAtOnce)};
}

/// The factor and the result, or the two factors, of one thread's products of a block.
struct Workspace {
  PlaneMemory first;
  PlaneMemory second;
};
/// One for each thread that gets some of `tasks`.
std::vector<Workspace> workspaces(std::int64_t tasks, std::int64_t tiles, std::int64_t first_channels,
                                  std::int64_t second_channels, std::int64_t second_width) {
  std::vector<Workspace> each;
  for (std::int64_t thread = 0; thread < std::min<std::int64_t>(tasks, at::get_num_threads()); ++thread)
    each.push_back(
        {PlaneMemory(tiles, first_channels, first_channels), PlaneMemory(tiles, second_channels, second_width)});
  return each;
}

std::vector<float> zeros_for(const TiledImages& some, const TiledImages& others) {
  return std::vector<float>(static_cast<std::size_t>(std::max(some.channels, others.channels)), 0);
}

/// Calls share(begin, end, workspace) for all of `tasks`, in several threads.
template <class Share>
void share_out(std::int64_t tasks, std::vector<Workspace>& each, const Share& share) {
  const auto threads = static_cast<std::int64_t>(each.size());
  at::parallel_for(0, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t thread = begin; thread < end; ++thread)
      share(tasks * thread / threads, tasks * (thread + 1) / threads, each[static_cast<std::size_t>(thread)]);
  });
}

/// Convolves `input` into `output`, both in channels_last.
void convolve(const at::Tensor& input, const PlaneMemory& kernels, const std::optional<at::Tensor>& bias,
              at::Tensor& output) {
  const TiledImages from = images_of(input), to = images_of(output);
  const TileBlocks blocks = blocks_of(from);
  std::vector<Workspace> each = workspaces(blocks.count(), blocks.size, from.channels, to.channels, to.channels);
  if (runtime::is_fake(input)) return;
  const std::vector<float> zeros = zeros_for(from, to);
  const auto* pixels = input.const_data_ptr<float>();
  const auto* added = bias ? bias->const_data_ptr<float>() : zeros.data();
  auto* results = output.mutable_data_ptr<float>();
  const Planes<const float> right = kernels.planes(from.channels);
  share_out(blocks.count(), each, [&](std::int64_t begin, std::int64_t end, Workspace& own) {
    for (std::int64_t block = begin; block < end; ++block) {
      const Span tiles = blocks.tiles_of(block);
      const Planes<float> left = own.first.planes(tiles.count), result = own.second.planes(tiles.count);
      patches_to_planes(pixels, from, tiles, {0, from.channels}, zeros.data(), left);
      for (std::int64_t p = 0; p < kWinogradPlanes; ++p)
        for (std::int64_t c = 0; c < to.channels; c += right.width)
          tile_product({.data = left.data + p * left.stride, .row_stride = from.channels, .column_stride = 1},
                       {.data = right.at(0, c) + p * right.stride, .row_stride = right.width},
                       {.data = result.at(0, c) + p * result.stride, .row_stride = to.channels},
                       {.rows = tiles.count, .inner = from.channels, .columns = right.width}, 1, Into::nothing);
      planes_to_tiles(std::as_const(own.second).planes(tiles.count), to, tiles, added, results);
    }
  });
}

/// How the weight's gradient is shared out: `sums` parts of the tiles times `groups` of the input's channels.
struct Shares {
  std::int64_t sums;
  std::int64_t groups;
};
/// Each sum takes 16 planes. So where these are large, threads rather share the channels.
Shares shares_of(const Kernels& sizes, std::int64_t blocks) {
  constexpr std::int64_t kLargeSum = 1 << 15;
  const std::int64_t threads = at::get_num_threads(), panels = sizes.inputs / panel_width(sizes.inputs);
  std::int64_t groups = 1;
  if (sizes.inputs * sizes.outputs >= kLargeSum)
    while (groups * 2 <= threads && panels % (groups * 2) == 0) groups *= 2;
  return {.sums = std::clamp<std::int64_t>(threads / groups, 1, std::max<std::int64_t>(blocks, 1)), .groups = groups};
}

/// Adds the products of `some` of the blocks to `sum` [16, outputs, inputs], for the inputs in `channels`.
void sum_products(const at::Tensor& input, const at::Tensor& gradient, const TileBlocks& blocks, const Span& some,
                  const Span& channels, Workspace& own, float* sum) {
  const TiledImages images = images_of(input), outputs = images_of(gradient);
  const std::vector<float> zeros = zeros_for(images, outputs);
  for (std::int64_t block = some.first; block < some.first + some.count; ++block) {
    const Span tiles = blocks.tiles_of(block);
    const Planes<float> left = own.first.planes(tiles.count), right = own.second.planes(tiles.count);
    tiles_to_planes(gradient.const_data_ptr<float>(), outputs, tiles, zeros.data(), left);
    patches_to_planes(input.const_data_ptr<float>(), images, tiles, channels, zeros.data(), right);
    for (std::int64_t p = 0; p < kWinogradPlanes; ++p)
      for (std::int64_t c = 0; c < channels.count; c += right.width)
        tile_product(
            {.data = left.data + p * left.stride, .row_stride = 1, .column_stride = outputs.channels},
            {.data = right.at(0, c) + p * right.stride, .row_stride = right.width},
            {.data = sum + p * outputs.channels * images.channels + channels.first + c, .row_stride = images.channels},
            {.rows = outputs.channels, .inner = tiles.count, .columns = right.width}, 1, Into::sum);
  }
}

at::Tensor weight_gradient(const at::Tensor& input, const at::Tensor& gradient, const at::Tensor& weight) {
  const Kernels sizes = sizes_of(weight);
  const TileBlocks blocks = blocks_of(images_of(input));
  const Shares shares = shares_of(sizes, blocks.count());
  const std::int64_t channels = sizes.inputs / shares.groups, tasks = shares.sums * shares.groups;
  at::Tensor result = at::empty_like(weight);
  at::Tensor sums = at::zeros({shares.sums, kWinogradPlanes, sizes.outputs, sizes.inputs});
  std::vector<Workspace> each = workspaces(tasks, blocks.size, sizes.outputs, channels, panel_width(sizes.inputs));
  if (runtime::is_fake(input)) return result;
  auto* const first_sum = sums.mutable_data_ptr<float>();
  share_out(tasks, each, [&](std::int64_t begin, std::int64_t end, Workspace& own) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t part = task / shares.groups, first = blocks.count() * part / shares.sums;
      const Span some{first, blocks.count() * (part + 1) / shares.sums - first};
      sum_products(input, gradient, blocks, some, {task % shares.groups * channels, channels}, own,
                   first_sum + part * (sums.numel() / shares.sums));
    }
  });
  auto* const kernels = result.mutable_data_ptr<float>();
  at::parallel_for(0, sizes.outputs, 1, [&](std::int64_t begin, std::int64_t end) {
    planes_to_kernels(first_sum, shares.sums, sizes, {begin, end - begin}, kernels);
  });
  return result;
}

at::Tensor run_winograd(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  at::Tensor output = at::empty({input.size(0), weight.size(0), input.size(2), input.size(3)},
                                input.options().memory_format(at::MemoryFormat::ChannelsLast));
  convolve(input, kernel_planes(weight, Of::output), bias, output);
  return output;
}

// Registered with LibTorch's dispatcher, so that activation checkpointing can save its output.
TORCH_LIBRARY_FRAGMENT(trainctl, library) {
  library.def("winograd_convolution(Tensor input, Tensor weight, Tensor? bias) -> Tensor");
}
TORCH_LIBRARY_IMPL(trainctl, CPU, library) {
  library.impl("winograd_convolution", &run_winograd);
}
TORCH_LIBRARY_IMPL(trainctl, Meta, library) {
  library.impl("winograd_convolution", &run_winograd);
}

struct WinogradFunction final : torch::autograd::Function<WinogradFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    static const auto op =
        c10::Dispatcher::singleton()
            .findSchemaOrThrow("trainctl::winograd_convolution", "")
            .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&)>();
    context->save_for_backward({input, weight});
    context->saved_data["bias"] = bias.has_value();
    return op.call(input, weight, bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor gradient = output_gradients[0].contiguous(at::MemoryFormat::ChannelsLast);
    const bool of_input = context->needs_input_grad(0), of_weight = context->needs_input_grad(1);
    const bool of_bias = context->saved_data["bias"].toBool() && context->needs_input_grad(2);
    RECORD_FUNCTION(
        "trainctl::winograd_convolution_backward",
        std::vector<c10::IValue>({gradient, input, weight, c10::List<bool>({of_input, of_weight, of_bias})}));
    variable_list gradients(3);
    if (of_input) {
      gradients[0] = at::empty_like(input);
      convolve(gradient, kernel_planes(weight, Of::input_gradient), std::nullopt, gradients[0]);
    }
    if (of_weight) gradients[1] = weight_gradient(input, gradient, weight);
    if (of_bias) gradients[2] = gradient.sum({0, 2, 3});
    return gradients;
  }
};

}  // namespace

bool suits_winograd(const at::Tensor& input, const at::Tensor& weight) {
  if (!is_channels_last(input) || !is_channels_last(weight) || PortableOperators::are_wanted() ||
      at::autocast::is_autocast_enabled(at::kCPU))
    return false;
  const Kernels sizes = sizes_of(weight);
  const TiledImages images = images_of(input);
  const auto has_channels = [](std::int64_t channels) {
    return channels >= kFewestChannels && channels % kMaxLanes == 0;
  };
  // The kernels' transform is spread over the tiles.
  const bool has_tiles = images.tiles() >= std::max(kFewestTiles, std::max(sizes.inputs, sizes.outputs) / 2);
  // A tile has 16 products, each of its pixels 9 direct ones. Those for pixels beyond the border are in vain.
  const std::int64_t direct = 9 * images.batch * images.height * images.width;
  return weight.size(2) == 3 && weight.size(3) == 3 && has_channels(sizes.outputs) && has_channels(sizes.inputs) &&
         images.channels == sizes.inputs && has_tiles && 2 * direct >= 3 * kWinogradPlanes * images.tiles();
}

at::Tensor winograd_convolution(const at::Tensor& input, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias) {
  return WinogradFunction::apply(input, weight, bias);
}

}  // namespace trainctl::kernels
