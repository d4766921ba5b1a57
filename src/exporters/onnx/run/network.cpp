// Operators that arrange elements, and those that networks are named after.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "exporters/onnx/run/registry.h"

namespace trainctl::exporters {
namespace {

using OnnxValues = std::vector<at::Tensor>;
using Ints = std::vector<std::int64_t>;

std::int64_t axis_of(std::int64_t axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank)
    throw core::Error("axis: out of range, got " + std::to_string(axis) + "; expected " + std::to_string(-rank) +
                      " to " + std::to_string(rank - 1));
  return axis < 0 ? axis + rank : axis;
}

OnnxValues shape(const OnnxCall& call) {
  const std::int64_t rank = call.input(0).dim();
  const auto bound = [&](std::int64_t place) {
    return std::clamp<std::int64_t>(place < 0 ? place + rank : place, 0, rank);
  };
  const std::int64_t begin = bound(call.attribute("start", std::int64_t{0}));
  const std::int64_t end = std::max(begin, bound(call.attribute("end", rank)));
  const at::IntArrayRef sizes = call.input(0).sizes();
  return {at::tensor(Ints(sizes.begin() + begin, sizes.begin() + end), at::kLong)};
}

OnnxValues reshape(const OnnxCall& call) {
  Ints sizes = call.integers(1);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] == 0 && call.attribute("allowzero", std::int64_t{0}) == 0)
      sizes[i] = call.input(0).size(static_cast<std::int64_t>(i));
  return {call.input(0).reshape(sizes)};
}

OnnxValues flatten(const OnnxCall& call) {
  const at::Tensor& input = call.input(0);
  const std::int64_t axis = call.attribute("axis", std::int64_t{1});
  if (axis < 0 || axis > input.dim())
    throw core::Error("axis: out of range, got " + std::to_string(axis) + "; expected 0 to " +
                      std::to_string(input.dim()));
  std::int64_t rows = 1;
  for (std::int64_t i = 0; i < axis; ++i) rows *= input.size(i);
  return {input.reshape({rows, rows == 0 ? 0 : input.numel() / rows})};
}

OnnxValues transpose(const OnnxCall& call) {
  Ints dims;
  for (std::int64_t i = call.input(0).dim() - 1; i >= 0; --i) dims.push_back(i);
  return {call.input(0).permute(call.attribute("perm", dims))};
}

OnnxValues unsqueeze(const OnnxCall& call) {
  Ints axes = call.integers(1);
  at::Tensor value = call.input(0);
  const std::int64_t rank = value.dim() + static_cast<std::int64_t>(axes.size());
  for (std::int64_t& axis : axes) axis = axis_of(axis, rank);
  std::sort(axes.begin(), axes.end());
  for (const std::int64_t axis : axes) value = value.unsqueeze(axis);
  return {value};
}

OnnxValues squeeze(const OnnxCall& call) {
  if (call.num_inputs() < 2) return {call.input(0).squeeze()};
  Ints axes = call.integers(1);
  at::Tensor value = call.input(0);
  for (std::int64_t& axis : axes) axis = axis_of(axis, value.dim());
  std::sort(axes.rbegin(), axes.rend());
  for (const std::int64_t axis : axes) {
    if (value.size(axis) != 1) throw core::Error("a dim that it takes away has a size other than 1");
    value = value.squeeze(axis);
  }
  return {value};
}

/// Gathers; negative indices count from the end.
OnnxValues gather(const OnnxCall& call) {
  const at::Tensor& data = call.input(0);
  const std::int64_t axis = axis_of(call.attribute("axis", std::int64_t{0}), data.dim());
  const at::IntArrayRef places = call.input(1).sizes();
  Ints sizes = data.sizes().vec();
  sizes.erase(sizes.begin() + axis);
  sizes.insert(sizes.begin() + axis, places.begin(), places.end());
  check_size(sizes);
  const at::Tensor given = call.input(1).to(at::kLong);
  const at::Tensor indices = given.add(given.lt(0).to(at::kLong).mul(data.size(axis)));
  return {data.index_select(axis, indices.flatten()).reshape(sizes)};
}

OnnxValues gather_elements(const OnnxCall& call) {
  return {call.input(0).gather(axis_of(call.attribute("axis", std::int64_t{0}), call.input(0).dim()), call.input(1))};
}

OnnxValues slice(const OnnxCall& call) {
  at::Tensor value = call.input(0);
  const Ints starts = call.integers(1), ends = call.integers(2);
  Ints axes(starts.size()), steps(starts.size(), 1);
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  if (call.optional(3)) axes = call.integers(3);
  if (call.optional(4)) steps = call.integers(4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    throw core::Error("starts, ends, axes and steps: different lengths; expected one length for all");
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (steps[i] < 1) throw core::Error("steps backwards aren't known here");
    value = value.slice(axis_of(axes[i], value.dim()), starts[i], ends[i], steps[i]);
  }
  return {value};
}

OnnxValues split(const OnnxCall& call) {
  const at::Tensor& input = call.input(0);
  const std::int64_t axis = axis_of(call.attribute("axis", std::int64_t{0}), input.dim());
  if (call.optional(1)) return input.split_with_sizes(call.integers(1), axis);
  const auto parts = static_cast<std::int64_t>(call.num_outputs());
  if (parts == 0 || input.size(axis) % parts != 0)
    throw core::Error("parts: unequal, got " + std::to_string(input.size(axis)) + " places for " +
                      std::to_string(parts) + " parts; expected a multiple");
  return input.chunk(parts, axis);
}

/// Expands to a shape, in which a 1 keeps the input's size.
OnnxValues expand(const OnnxCall& call) {
  const Ints wanted = call.integers(1);
  const at::Tensor& input = call.input(0);
  const auto rank =
      static_cast<std::size_t>(std::max<std::int64_t>(input.dim(), static_cast<std::int64_t>(wanted.size())));
  Ints sizes(rank, 1);
  for (std::size_t i = 0; i < wanted.size(); ++i) sizes[rank - wanted.size() + i] = wanted[i];
  for (std::int64_t i = 1; i <= input.dim(); ++i) {
    std::int64_t& size = sizes[rank - static_cast<std::size_t>(i)];
    if (size == 1) size = input.size(-i);
  }
  check_size(sizes);
  return {input.expand(sizes)};
}

OnnxValues concat(const OnnxCall& call) {
  OnnxValues parts;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < call.num_inputs(); ++i) count += parts.emplace_back(call.input(i)).numel();
  check_size({count});
  return {at::cat(parts, call.attribute("axis", std::int64_t{0}))};
}

OnnxValues range(const OnnxCall& call) {
  for (std::size_t i = 0; i < 3; ++i)
    if (call.input(i).numel() != 1)
      throw core::Error("input number " + std::to_string(i) + ": no number, got " +
                        std::to_string(call.input(i).numel()) + " elements; expected 1");
  const double count = (call.input(1).item<double>() - call.input(0).item<double>()) / call.input(2).item<double>();
  if (!(count <= static_cast<double>(kMostElements)))
    throw core::Error("result: too large, got " + std::to_string(count) + " elements; expected at most " +
                      std::to_string(kMostElements));
  return {at::arange(call.input(0).item(), call.input(1).item(), call.input(2).item(), call.input(0).options())};
}

at::Tensor one_tensor(const onnx::Attribute& attribute) {
  if (!attribute.t || attribute.t->is_external)
    throw core::Error("attribute `" + attribute.name + "`: no tensor; expected one that is stored in the model's file");
  return tensor_of_onnx(*attribute.t, std::nullopt);
}

OnnxValues constant_of_shape(const OnnxCall& call) {
  const Ints sizes = call.integers(0);
  check_size(sizes);
  const onnx::Attribute* value = call.find("value");
  if (value == nullptr) return {at::zeros(sizes)};
  const at::Tensor one = one_tensor(*value);
  if (one.numel() != 1)
    throw core::Error("attribute `value`: no number, got " + std::to_string(one.numel()) + " elements; expected 1");
  return {at::full(sizes, one.item(), one.options())};
}

OnnxValues constant(const OnnxCall& call) {
  const onnx::Attribute* value = call.find("value");
  if (value == nullptr) throw core::Error("attribute `value` is missing; expected a tensor");
  return {one_tensor(*value)};
}

OnnxValues gemm(const OnnxCall& call) {
  const auto matrix = [&](std::size_t place, const char* turned) {
    const at::Tensor& given = call.input(place);
    if (given.dim() != 2)
      throw core::Error("input number " + std::to_string(place) + ": no matrix, got " + std::to_string(given.dim()) +
                        " dims; expected 2");
    return call.attribute(turned, std::int64_t{0}) != 0 ? given.t() : given;
  };
  at::Tensor product = matrix(0, "transA").matmul(matrix(1, "transB"));
  if (const double alpha = call.attribute("alpha", 1.0); alpha != 1) product = product.mul(alpha);
  if (const auto offset = call.optional(2)) {
    const double beta = call.attribute("beta", 1.0);
    product = product.add(beta == 1 ? *offset : offset->mul(beta));
  }
  return {product};
}

OnnxValues matmul(const OnnxCall& call) {
  return {at::matmul(call.input(0), call.input(1))};
}

OnnxValues layer_normalization(const OnnxCall& call) {
  const at::Tensor& input = call.input(0);
  const std::int64_t axis = axis_of(call.attribute("axis", std::int64_t{-1}), input.dim());
  return {at::layer_norm(input, input.sizes().slice(static_cast<std::size_t>(axis)), call.input(1), call.optional(2),
                         call.attribute("epsilon", 1e-5))};
}

/// Puts ONNX's gates (input, output, forget, cell) into PyTorch's order (input, forget, cell, output).
at::Tensor gates_from_onnx(const at::Tensor& gates) {
  const auto parts = gates.chunk(4, 0);
  if (parts.size() != 4)
    throw core::Error("weights: wrong shape, got " + std::to_string(gates.size(0)) +
                      " rows; expected four equal gates");
  return at::cat({parts[0], parts[2], parts[3], parts[1]}, 0);
}

OnnxValues lstm(const OnnxCall& call) {
  if (call.optional(4)) throw core::Error("lengths of sequences aren't known here");
  const at::Tensor& x = call.input(0);  // [T, B, I]
  const at::Tensor& weights = call.input(1);
  if (x.dim() != 3 || weights.dim() != 3)
    throw core::Error("inputs: wrong shapes, got " + std::to_string(x.dim()) + " and " + std::to_string(weights.dim()) +
                      " dims; expected [T, B, I] and [directions, 4H, I]");
  const std::int64_t num_directions = weights.size(0);
  const std::string direction = call.attribute("direction", "forward");
  if (direction != (num_directions == 2 ? "bidirectional" : "forward"))
    throw core::Error("direction " + direction + " isn't known here");
  const std::int64_t hidden_size = call.input(2).size(2);
  std::vector<at::Tensor> parameters;
  for (std::int64_t i = 0; i < num_directions; ++i) {
    parameters.push_back(gates_from_onnx(weights[i]));
    parameters.push_back(gates_from_onnx(call.input(2)[i]));
    const at::Tensor biases = call.optional(3) ? call.input(3)[i] : at::zeros({8 * hidden_size}, x.options());
    for (const at::Tensor& bias : biases.chunk(2, 0)) parameters.push_back(gates_from_onnx(bias));
  }
  const auto initial = [&](std::size_t place) {
    const auto given = call.optional(place);
    return given ? *given : at::zeros({num_directions, x.size(1), hidden_size}, x.options());
  };
  const auto [output, hidden, cell] =
      at::lstm(x, {initial(5), initial(6)}, parameters, /*has_biases=*/true, /*num_layers=*/1, /*dropout=*/0,
               /*train=*/false, num_directions == 2, /*batch_first=*/false);
  return {output.unflatten(2, {num_directions, hidden_size}).transpose(1, 2), hidden, cell};
}

}  // namespace

OnnxOperator find_network_operator(std::string_view name) {
  static const std::map<std::string_view, OnnxOperator> table = {
      {"Shape", shape},         {"Reshape", reshape},
      {"Flatten", flatten},     {"Transpose", transpose},
      {"Unsqueeze", unsqueeze}, {"Squeeze", squeeze},
      {"Gather", gather},       {"GatherElements", gather_elements},
      {"Slice", slice},         {"Split", split},
      {"Expand", expand},       {"Concat", concat},
      {"Range", range},         {"ConstantOfShape", constant_of_shape},
      {"Constant", constant},   {"Gemm", gemm},
      {"MatMul", matmul},       {"LayerNormalization", layer_normalization},
      {"LSTM", lstm},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace trainctl::exporters
