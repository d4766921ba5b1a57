// Lowerings of the operators on images.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "exporters/onnx/lower/lowering.h"

namespace trainctl::exporters {
namespace {

using Ints = std::vector<std::int64_t>;

/// Returns one value for rows and one for columns.
Ints both(const Ints& values) {
  return values.size() == 1 ? Ints{values[0], values[0]} : values;
}

/// Returns the pads before and after each dim.
Ints twice(const Ints& values) {
  const Ints pads = both(values);
  return {pads[0], pads[1], pads[0], pads[1]};
}

void conv_transpose2d(Lowering& to) {
  std::vector<std::string> inputs{to.tensor("input"), to.tensor("weight")};
  if (to.has("bias")) inputs.push_back(to.tensor("bias"));
  to.set(to.graph().add("ConvTranspose", inputs,
                        {{"strides", both(to.fixed_integers("stride"))},
                         {"pads", twice(to.fixed_integers("padding"))},
                         {"output_padding", both(to.fixed_integers("output_padding"))},
                         {"dilations", both(to.fixed_integers("dilation"))},
                         {"group", to.fixed_integer("groups")}}));
}

void conv2d(Lowering& to) {
  if (to.argument("padding")->type()->kind() == c10::TypeKind::StringType) to.refuse("its padding is a word");
  if (to.node().schema().argumentIndexWithName("transposed") && to.flag("transposed")) return conv_transpose2d(to);
  std::vector<std::string> inputs{to.tensor("input"), to.tensor("weight")};
  if (to.has("bias")) inputs.push_back(to.tensor("bias"));
  to.set(to.graph().add("Conv", inputs,
                        {{"strides", both(to.fixed_integers("stride"))},
                         {"pads", twice(to.fixed_integers("padding"))},
                         {"dilations", both(to.fixed_integers("dilation"))},
                         {"group", to.fixed_integer("groups")}}));
}

void batch_norm(Lowering& to) {
  to.set(to.graph().add(
      "BatchNormalization",
      {to.tensor("input"), to.tensor("weight"), to.tensor("bias"), to.tensor("running_mean"), to.tensor("running_var")},
      {{"epsilon", static_cast<float>(to.fixed_number("eps"))}}));
}

void max_pool2d(Lowering& to) {
  const Ints kernel = both(to.fixed_integers("kernel_size"));
  const Ints stride = both(to.fixed_integers("stride"));
  to.set(to.graph().add("MaxPool", {to.tensor("self")},
                        {{"kernel_shape", kernel},
                         {"strides", stride.empty() ? kernel : stride},
                         {"pads", twice(to.fixed_integers("padding"))},
                         {"dilations", both(to.fixed_integers("dilation"))},
                         {"ceil_mode", std::int64_t{to.flag("ceil_mode") ? 1 : 0}}}));
}

void avg_pool2d(Lowering& to) {
  if (to.has("divisor_override")) to.refuse("it has a divisor of its own");
  const Ints kernel = both(to.fixed_integers("kernel_size"));
  const Ints stride = both(to.fixed_integers("stride"));
  to.set(to.graph().add("AveragePool", {to.tensor("self")},
                        {{"kernel_shape", kernel},
                         {"strides", stride.empty() ? kernel : stride},
                         {"pads", twice(to.fixed_integers("padding"))},
                         {"ceil_mode", std::int64_t{to.flag("ceil_mode") ? 1 : 0}},
                         {"count_include_pad", std::int64_t{to.flag("count_include_pad") ? 1 : 0}}}));
}

void adaptive_avg_pool2d(Lowering& to) {
  if (to.fixed_integers("output_size") != Ints{1, 1})
    to.refuse("only the mean over the whole image has an ONNX operator");
  to.set(to.graph().add("GlobalAveragePool", {to.tensor("self")}));
}

/// Lowers (x - mean) / √(variance + ε) · w + b by groups of channels. Opset 17 has InstanceNormalization, which
/// normalises each channel of [B, groups, elements].
void group_norm(Lowering& to) {
  OnnxGraph& graph = to.graph();
  const std::int64_t groups = to.fixed_integer("num_groups");
  const std::string x = to.tensor("input");
  const at::TensorOptions floats = at::TensorOptions().dtype(at::kFloat);
  const std::string one = graph.tensor("ones_" + std::to_string(groups), at::ones({groups}, floats));
  const std::string zero = graph.tensor("zeros_" + std::to_string(groups), at::zeros({groups}, floats));
  const std::string apart = graph.add("Reshape", {x, graph.integers({0, groups, -1})});
  const std::string normal =
      graph.add("InstanceNormalization", {apart, one, zero}, {{"epsilon", static_cast<float>(to.fixed_number("eps"))}});
  std::string image = graph.add("Reshape", {normal, graph.add("Shape", {x})});
  const auto by_channel = [&](const char* name) {
    return graph.add("Unsqueeze", {to.tensor(name), graph.integers({1, 2})});
  };
  if (to.has("weight")) image = graph.add("Mul", {image, by_channel("weight")});
  if (to.has("bias")) image = graph.add("Add", {image, by_channel("bias")});
  to.set(image);
}

/// Lowers to a size that is a multiple of the input's: the pixels of ONNX's Resize are then PyTorch's.
template <const char* Mode>
void upsample(Lowering& to) {
  OnnxGraph& graph = to.graph();
  const bool is_nearest = std::string_view(Mode) == "nearest";
  if (!is_nearest && to.flag("align_corners")) to.refuse("it aligns corners");
  const std::string x = to.tensor("self");
  const std::string outer = graph.add("Shape", {x}, {{"start", std::int64_t{0}}, {"end", std::int64_t{2}}});
  const std::string size = graph.add("Concat", {outer, to.integers("output_size")}, {{"axis", std::int64_t{0}}});
  OnnxAttributes attributes = {
      {"mode", std::string(Mode)},
      {"coordinate_transformation_mode", std::string(is_nearest ? "asymmetric" : "half_pixel")}};
  if (is_nearest) attributes.emplace_back("nearest_mode", std::string("floor"));
  to.set(graph.add("Resize", {x, "", "", size}, attributes));
}

constexpr char kNearest[] = "nearest", kLinear[] = "linear";

}  // namespace

const std::map<std::string_view, LowerOperator>& image_lowerings() {
  static const std::map<std::string_view, LowerOperator> table = {
      {"aten::conv2d", conv2d},
      {"aten::conv_transpose2d", conv_transpose2d},
      {"aten::_convolution", conv2d},
      {"aten::batch_norm", batch_norm},
      {"aten::group_norm", group_norm},
      {"aten::max_pool2d", max_pool2d},
      {"aten::avg_pool2d", avg_pool2d},
      {"aten::adaptive_avg_pool2d", adaptive_avg_pool2d},
      {"aten::upsample_nearest2d", upsample<kNearest>},
      {"aten::upsample_bilinear2d", upsample<kLinear>},
  };
  return table;
}

}  // namespace trainctl::exporters
