// Operators on images.
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/instance_norm.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_nearest2d.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "exporters/onnx/run/registry.h"

namespace trainctl::exporters {
namespace {

using OnnxValues = std::vector<at::Tensor>;
using Ints = std::vector<std::int64_t>;

/// Returns the padding of each dim. ONNX has one before and one after a dim; LibTorch pads both alike.
Ints padding(const OnnxCall& call, std::size_t num_dims) {
  if (call.attribute("auto_pad", "NOTSET") != "NOTSET") throw core::Error("auto_pad isn't known here");
  const Ints pads = call.attribute("pads", Ints(2 * num_dims, 0));
  if (pads.size() != 2 * num_dims || !std::equal(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(num_dims),
                                                 pads.begin() + static_cast<std::ptrdiff_t>(num_dims)))
    throw core::Error("padding that differs between the sides isn't known here");
  return {pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(num_dims)};
}

enum class Direction { forward, transposed };

template <Direction Way>
OnnxValues conv(const OnnxCall& call) {
  if (call.input(0).dim() < 3 || call.input(1).dim() != call.input(0).dim())
    throw core::Error("inputs: no images and filters, got " + std::to_string(call.input(0).dim()) + " and " +
                      std::to_string(call.input(1).dim()) + " dims; expected one number of dims, 3 or more");
  const auto num_dims = static_cast<std::size_t>(call.input(0).dim() - 2);
  const Ints ones(num_dims, 1);
  return {at::convolution(call.input(0), call.input(1), call.optional(2), call.attribute("strides", ones),
                          padding(call, num_dims), call.attribute("dilations", ones), Way == Direction::transposed,
                          call.attribute("output_padding", Ints(num_dims, 0)),
                          call.attribute("group", std::int64_t{1}))};
}

OnnxValues batch_normalization(const OnnxCall& call) {
  if (call.attribute("training_mode", std::int64_t{0}) != 0)
    throw core::Error("attribute `training_mode`: not supported here, got " +
                      std::to_string(call.attribute("training_mode", std::int64_t{0})) + "; expected 0");
  return {at::batch_norm(call.input(0), call.input(1), call.input(2), call.input(3), call.input(4), /*training=*/false,
                         /*momentum=*/0.1, call.attribute("epsilon", 1e-5), /*cudnn_enabled=*/false)};
}

OnnxValues max_pool(const OnnxCall& call) {
  const Ints kernel = call.attribute("kernel_shape", Ints());
  if (kernel.size() != 2 || call.num_outputs() != 1) throw core::Error("only MaxPool of images is known here");
  const Ints ones(2, 1);
  return {at::max_pool2d(call.input(0), kernel, call.attribute("strides", ones), padding(call, 2),
                         call.attribute("dilations", ones), call.attribute("ceil_mode", std::int64_t{0}) != 0)};
}

OnnxValues global_average_pool(const OnnxCall& call) {
  if (call.input(0).dim() != 4) throw core::Error("only GlobalAveragePool of images is known here");
  return {call.input(0).mean({2, 3}, /*keepdim=*/true)};
}

OnnxValues average_pool(const OnnxCall& call) {
  const Ints kernel = call.attribute("kernel_shape", Ints());
  if (kernel.size() != 2) throw core::Error("only AveragePool of images is known here");
  return {at::avg_pool2d(call.input(0), kernel, call.attribute("strides", Ints(2, 1)), padding(call, 2),
                         call.attribute("ceil_mode", std::int64_t{0}) != 0,
                         call.attribute("count_include_pad", std::int64_t{0}) != 0)};
}

OnnxValues instance_normalization(const OnnxCall& call) {
  return {at::instance_norm(call.input(0), call.input(1), call.input(2), {}, {}, /*use_input_stats=*/true,
                            /*momentum=*/0, call.attribute("epsilon", 1e-5), /*cudnn_enabled=*/false)};
}

/// Resizes images to whole multiples of their size, which is all that exports here need.
OnnxValues resize(const OnnxCall& call) {
  const at::Tensor& input = call.input(0);
  const Ints size = call.integers(3);
  if (input.dim() != 4 || size.size() != 4 || size[0] != input.size(0) || size[1] != input.size(1))
    throw core::Error("only Resize of images to a given height and width is known here");
  if (input.numel() == 0 || size[2] < 1 || size[3] < 1 || size[2] % input.size(2) != 0 || size[3] % input.size(3) != 0)
    throw core::Error("only Resize to a multiple of the size is known here");
  check_size(size);
  const std::string mode = call.attribute("mode", "nearest");
  const std::string places = call.attribute("coordinate_transformation_mode", "half_pixel");
  if (mode == "nearest" && places == "asymmetric" && call.attribute("nearest_mode", "round_prefer_floor") == "floor")
    return {at::upsample_nearest2d(input, {size[2], size[3]})};
  if (mode == "linear" && places == "half_pixel")
    return {at::upsample_bilinear2d(input, {size[2], size[3]}, /*align_corners=*/false)};
  throw core::Error("Resize with mode " + mode + " and coordinates " + places + " isn't known here");
}

}  // namespace

OnnxOperator find_image_operator(std::string_view name) {
  static const std::map<std::string_view, OnnxOperator> table = {
      {"Conv", conv<Direction::forward>},
      {"ConvTranspose", conv<Direction::transposed>},
      {"BatchNormalization", batch_normalization},
      {"InstanceNormalization", instance_normalization},
      {"MaxPool", max_pool},
      {"AveragePool", average_pool},
      {"GlobalAveragePool", global_average_pool},
      {"Resize", resize},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace trainctl::exporters
