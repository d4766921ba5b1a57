// Operators between floats and bytes, in the meaning that ONNX gives them.
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>

#include <map>

#include "core/error.h"
#include "exporters/onnx/run/registry.h"

namespace trainctl::exporters {
namespace {

using OnnxValues = std::vector<at::Tensor>;

/// Shapes levels to fit the input: one number, or one per place of an axis.
at::Tensor along_axis(const OnnxCall& call, const at::Tensor& levels) {
  if (levels.numel() == 1) return levels.reshape({});
  const at::Tensor& input = call.input(0);
  std::int64_t axis = call.attribute("axis", std::int64_t{1});
  if (axis < 0) axis += input.dim();
  if (axis < 0 || axis >= input.dim() || levels.dim() != 1 || levels.size(0) != input.size(axis))
    throw core::Error("scales or zero points: wrong shape, got " + std::to_string(levels.numel()) +
                      " values; expected one, or one per place of an axis of the input");
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[static_cast<std::size_t>(axis)] = levels.size(0);
  return levels.reshape(shape);
}

at::Tensor scale_of(const OnnxCall& call) {
  if (call.input(1).scalar_type() != at::kFloat)
    throw core::Error(std::string("scale: wrong type, got ") + c10::toString(call.input(1).scalar_type()) +
                      "; expected Float");
  return along_axis(call, call.input(1));
}

void check_bytes(at::ScalarType dtype) {
  if (dtype != at::kByte && dtype != at::kChar) throw core::Error("only levels of eight bits are known here");
}

OnnxValues quantize_linear(const OnnxCall& call) {
  const auto zero_point = call.optional(2);
  const at::ScalarType dtype = zero_point ? zero_point->scalar_type() : at::kByte;
  check_bytes(dtype);
  at::Tensor level = call.input(0).to(at::kFloat).div(scale_of(call)).round();  // half to even, as ONNX wants
  if (zero_point) level = level.add(along_axis(call, *zero_point).to(at::kFloat));
  return {dtype == at::kByte ? level.clamp(0, 255).to(dtype) : level.clamp(-128, 127).to(dtype)};
}

OnnxValues dequantize_linear(const OnnxCall& call) {
  const at::ScalarType dtype = call.input(0).scalar_type();
  if (dtype != at::kInt) check_bytes(dtype);
  at::Tensor level = call.input(0).to(at::kFloat);
  if (const auto zero_point = call.optional(2)) level = level.sub(along_axis(call, *zero_point).to(at::kFloat));
  return {level.mul(scale_of(call))};
}

/// Runs https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html.
OnnxValues dynamic_quantize_linear(const OnnxCall& call) {
  const at::Tensor& input = call.input(0);
  const at::Tensor low = at::amin(input).clamp_max(0);
  const at::Tensor high = at::amax(input).clamp_min(0);
  const at::Tensor scale = high.sub(low).div(255);
  const at::Tensor divisor = scale.add(scale.eq(0).to(at::kFloat));  // all 0: any scale does
  const at::Tensor zero_point = low.neg().div(divisor).round().clamp(0, 255);
  return {input.div(divisor).round().add(zero_point).clamp(0, 255).to(at::kByte), scale, zero_point.to(at::kByte)};
}

}  // namespace

OnnxOperator find_quantization_operator(std::string_view name) {
  static const std::map<std::string_view, OnnxOperator> table = {
      {"QuantizeLinear", quantize_linear},
      {"DequantizeLinear", dequantize_linear},
      {"DynamicQuantizeLinear", dynamic_quantize_linear},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace trainctl::exporters
