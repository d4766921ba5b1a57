// Operators that work element by element, or sum elements up.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/where.h>

#include <map>

#include "core/error.h"
#include "exporters/onnx/run/registry.h"

namespace trainctl::exporters {
namespace {

using OnnxValues = std::vector<at::Tensor>;

template <at::Tensor (at::Tensor::*Function)() const>
OnnxValues unary(const OnnxCall& call) {
  return {(call.input(0).*Function)()};
}

/// Throws unless both sides have one type, as ONNX requires, and their result a possible size. LibTorch would find a
/// common type.
void check_operands(const OnnxCall& call) {
  check_size(at::infer_size(call.input(0).sizes(), call.input(1).sizes()));
  if (call.input(0).scalar_type() != call.input(1).scalar_type())
    throw core::Error(std::string("inputs: different types, got ") + c10::toString(call.input(0).scalar_type()) +
                      " and " + c10::toString(call.input(1).scalar_type()) + "; expected one type");
}

template <at::Tensor (at::Tensor::*Function)(const at::Tensor&) const>
OnnxValues binary(const OnnxCall& call) {
  check_operands(call);
  return {(call.input(0).*Function)(call.input(1))};
}

OnnxValues add(const OnnxCall& call) {
  check_operands(call);
  return {call.input(0).add(call.input(1))};
}

OnnxValues sub(const OnnxCall& call) {
  check_operands(call);
  return {call.input(0).sub(call.input(1))};
}

/// Divides; integers as C does.
OnnxValues div(const OnnxCall& call) {
  check_operands(call);
  const at::Tensor& divisor = call.input(1);
  if (call.input(0).is_floating_point()) return {call.input(0).div(divisor)};
  // The least integer divided by -1 is out of range, and the CPU ends the program by a signal.
  const at::Tensor changes_sign = divisor.to(at::kLong).eq(-1);
  const at::Tensor quotient = call.input(0).div(divisor.masked_fill(changes_sign, 1), "trunc");
  return {at::where(changes_sign, quotient.neg(), quotient)};
}

/// Returns integers' remainder with the sign of the divisor.
OnnxValues mod(const OnnxCall& call) {
  check_operands(call);
  if (call.attribute("fmod", std::int64_t{0}) != 0) throw core::Error("fmod: expected 0, got 1");
  return {at::remainder(call.input(0), call.input(1))};
}

OnnxValues pow(const OnnxCall& call) {
  return {at::pow(call.input(0), call.input(1)).to(call.input(0).scalar_type())};
}

template <at::Tensor (*Function)(const at::Tensor&, const at::Tensor&)>
OnnxValues of_all(const OnnxCall& call) {
  at::Tensor result = call.input(0);
  for (std::size_t i = 1; i < call.num_inputs(); ++i) result = Function(result, call.input(i));
  return {result};
}

OnnxValues where(const OnnxCall& call) {
  if (call.input(0).scalar_type() != at::kBool)
    throw core::Error(std::string("condition: wrong type, got ") + c10::toString(call.input(0).scalar_type()) +
                      "; expected Bool");
  return {at::where(call.input(0), call.input(1), call.input(2))};
}

OnnxValues cast(const OnnxCall& call) {
  return {call.input(0).to(dtype_of_onnx(call.attribute("to", std::int64_t{0})))};
}

OnnxValues identity(const OnnxCall& call) {
  return {call.input(0)};
}

/// Returns the axes: an attribute, or an input of ReduceSum. None means all.
std::vector<std::int64_t> axes(const OnnxCall& call) {
  if (call.num_inputs() > 1) return call.integers(1);
  return call.attribute("axes", std::vector<std::int64_t>());
}

bool keeps_dims(const OnnxCall& call) {
  return call.attribute("keepdims", std::int64_t{1}) != 0;
}

OnnxValues reduce_mean(const OnnxCall& call) {
  return {call.input(0).mean(axes(call), keeps_dims(call))};
}
OnnxValues reduce_sum(const OnnxCall& call) {
  return {call.input(0).sum(axes(call), keeps_dims(call), call.input(0).scalar_type())};
}
OnnxValues reduce_min(const OnnxCall& call) {
  return {at::amin(call.input(0), axes(call), keeps_dims(call))};
}
OnnxValues reduce_max(const OnnxCall& call) {
  return {at::amax(call.input(0), axes(call), keeps_dims(call))};
}

OnnxValues softmax(const OnnxCall& call) {
  return {at::softmax(call.input(0), call.attribute("axis", std::int64_t{-1}))};
}

OnnxValues hard_sigmoid(const OnnxCall& call) {
  const double alpha = call.attribute("alpha", 0.2);
  return {call.input(0).mul(alpha).add(call.attribute("beta", 0.5)).clamp(0, 1)};
}
OnnxValues hard_swish(const OnnxCall& call) {
  return {at::hardswish(call.input(0))};
}
OnnxValues leaky_relu(const OnnxCall& call) {
  return {at::leaky_relu(call.input(0), call.attribute("alpha", 0.01))};
}
OnnxValues elu(const OnnxCall& call) {
  return {at::elu(call.input(0), call.attribute("alpha", 1.0))};
}
OnnxValues softplus(const OnnxCall& call) {
  return {at::softplus(call.input(0))};
}

OnnxValues clip(const OnnxCall& call) {
  at::Tensor value = call.input(0);
  if (const auto low = call.optional(1)) value = at::maximum(value, *low);
  if (const auto high = call.optional(2)) value = at::minimum(value, *high);
  return {value};
}

}  // namespace

OnnxOperator find_elementwise_operator(std::string_view name) {
  using T = at::Tensor;
  static const std::map<std::string_view, OnnxOperator> table = {
      {"Relu", unary<&T::relu>},
      {"Tanh", unary<&T::tanh>},
      {"Sigmoid", unary<&T::sigmoid>},
      {"Exp", unary<&T::exp>},
      {"Log", unary<&T::log>},
      {"Sqrt", unary<&T::sqrt>},
      {"Neg", unary<&T::neg>},
      {"Round", unary<&T::round>},
      {"Abs", unary<&T::abs>},
      {"Cos", unary<&T::cos>},
      {"Sin", unary<&T::sin>},
      {"Erf", unary<&T::erf>},
      {"Not", unary<&T::logical_not>},
      {"Add", add},
      {"Sub", sub},
      {"Mul", binary<&T::mul>},
      {"Div", div},
      {"Mod", mod},
      {"Pow", pow},
      {"Equal", binary<&T::eq>},
      {"Less", binary<&T::lt>},
      {"LessOrEqual", binary<&T::le>},
      {"Greater", binary<&T::gt>},
      {"GreaterOrEqual", binary<&T::ge>},
      {"And", binary<&T::logical_and>},
      {"Or", binary<&T::logical_or>},
      {"Max", of_all<at::maximum>},
      {"Min", of_all<at::minimum>},
      {"Clip", clip},
      {"HardSigmoid", hard_sigmoid},
      {"HardSwish", hard_swish},
      {"LeakyRelu", leaky_relu},
      {"Elu", elu},
      {"Softplus", softplus},
      {"Where", where},
      {"Cast", cast},
      {"Identity", identity},
      {"Dropout", identity},
      {"ReduceMean", reduce_mean},
      {"ReduceSum", reduce_sum},
      {"ReduceMin", reduce_min},
      {"ReduceMax", reduce_max},
      {"Softmax", softmax},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace trainctl::exporters
