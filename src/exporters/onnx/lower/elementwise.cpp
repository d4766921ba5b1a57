// Lowerings of operators that work element by element, or sum elements up.
#include <array>
#include <cmath>
#include <numbers>

#include "exporters/onnx/lower/lowering.h"

namespace trainctl::exporters {
namespace {

using at::ScalarType;

constexpr char kAdd[] = "Add", kSub[] = "Sub", kMul[] = "Mul", kDiv[] = "Div";

template <const char* Op>
void unary(Lowering& to) {
  to.set(to.graph().add(Op, {to.tensor("self")}));
}

/// Returns the type of both sides: that of the operator's tensors, which numbers don't change.
ScalarType common_type(const Lowering& to) {
  return to.dtype(to.argument("self"));
}

std::string cast(Lowering& to, const std::string& value, ScalarType dtype) {
  return to.graph().add("Cast", {value}, {{"to", std::int64_t{onnx_type(dtype)}}});
}

/// Returns the other side of `self`, in the result's type.
std::string other_side(Lowering& to, ScalarType dtype) {
  const auto* other = to.argument("other");
  const std::string value = to.tensor_or_number("other", dtype);
  const bool is_tensor = other->type()->isSubtypeOf(*c10::TensorType::get());
  return is_tensor && to.dtype(other) != dtype ? cast(to, value, dtype) : value;
}

bool gives_integer(const Lowering& to) {
  return to.node().output()->type()->kind() == c10::TypeKind::IntType;
}

/// Lowers an operator of sizes, which are int64 [1] here: their schema has no arguments of tensors.
void binary_of_sizes(Lowering& to, const char* op) {
  to.set(to.graph().add(op, {to.integer(to.node().input(0)), to.integer(to.node().input(1))}));
}

template <const char* Op>
void binary(Lowering& to) {
  if (gives_integer(to)) return binary_of_sizes(to, Op);
  const ScalarType dtype = to.dtype(to.node().output());
  std::string self = to.tensor("self");
  if (common_type(to) != dtype) self = cast(to, self, dtype);
  std::string other = other_side(to, dtype);
  if (to.has("alpha") && to.fixed_number("alpha") != 1)
    other = to.graph().add("Mul", {other, to.graph().number(to.fixed_number("alpha"), dtype)});
  to.set(to.graph().add(Op, {self, other}));
}

/// Lowers a division. ONNX divides integers as C does, so only `trunc` of integers is possible.
void divide(Lowering& to) {
  if (to.has("rounding_mode") && to.dtype(to.node().output()) != at::kInt) to.refuse("it rounds");
  if (to.has("rounding_mode") && to.text("rounding_mode") != "trunc") to.refuse("it doesn't round to 0");
  binary<kDiv>(to);
}

/// Lowers a remainder of integers with the sign of the divisor, which is ONNX's Mod.
void remainder(Lowering& to) {
  const ScalarType dtype = to.dtype(to.node().output());
  if (!at::isIntegralType(dtype, /*includeBool=*/false)) to.refuse("it is of floats");
  to.set(to.graph().add("Mod", {to.tensor("self"), other_side(to, dtype)}));
}

/// Lowers other - alpha self.
void reversed_sub(Lowering& to) {
  const ScalarType dtype = to.dtype(to.node().output());
  if (to.fixed_number("alpha") != 1) to.refuse("its alpha isn't 1");
  to.set(to.graph().add("Sub", {other_side(to, dtype), to.tensor("self")}));
}

template <const char* Op>
void comparison(Lowering& to) {
  to.set(to.graph().add(Op, {to.tensor("self"), other_side(to, common_type(to))}));
}

void not_equal(Lowering& to) {
  to.set(to.graph().add("Not", {to.graph().add("Equal", {to.tensor("self"), other_side(to, common_type(to))})}));
}

std::string as_bool(Lowering& to, const char* argument) {
  const std::string value = to.tensor(argument);
  return to.dtype(to.argument(argument)) == at::kBool ? value : cast(to, value, at::kBool);
}

void logical_and(Lowering& to) {
  to.set(to.graph().add("And", {as_bool(to, "self"), as_bool(to, "other")}));
}

void logical_not(Lowering& to) {
  to.set(to.graph().add("Not", {as_bool(to, "self")}));
}

void where(Lowering& to) {
  const ScalarType dtype = to.dtype(to.node().output());
  to.set(to.graph().add("Where", {to.tensor("condition"), to.tensor_or_number("self", dtype), other_side(to, dtype)}));
}

void masked_fill(Lowering& to) {
  const ScalarType dtype = common_type(to);
  to.set(to.graph().add("Where", {to.tensor("mask"), to.tensor_or_number("value", dtype), to.tensor("self")}));
}

void silu(Lowering& to) {
  const std::string x = to.tensor("self");
  to.set(to.graph().add("Mul", {x, to.graph().add("Sigmoid", {x})}));
}

/// Lowers x/2 (1 + erf(x/√2)), or with tanh(√(2/π)(x + 0.044715 x³)) in the place of erf.
void gelu(Lowering& to) {
  OnnxGraph& graph = to.graph();
  const ScalarType dtype = common_type(to);
  const auto number = [&](double value) { return graph.number(value, dtype); };
  const std::string x = to.tensor("self");
  std::string bent;
  if (to.text("approximate") == "tanh") {
    const std::string cube = graph.add("Mul", {graph.add("Mul", {x, x}), x});
    const std::string sum = graph.add("Add", {x, graph.add("Mul", {cube, number(0.044715)})});
    bent = graph.add("Tanh", {graph.add("Mul", {sum, number(std::sqrt(2 / std::numbers::pi))})});
  } else {
    bent = graph.add("Erf", {graph.add("Mul", {x, number(1 / std::numbers::sqrt2)})});
  }
  const std::string half = graph.add("Mul", {x, number(0.5)});
  to.set(graph.add("Mul", {half, graph.add("Add", {bent, number(1)})}));
}

void clamp_min(Lowering& to) {
  to.set(to.graph().add("Max", {to.tensor("self"), to.tensor_or_number("min", common_type(to))}));
}

void clamp_max(Lowering& to) {
  to.set(to.graph().add("Min", {to.tensor("self"), to.tensor_or_number("max", common_type(to))}));
}

std::int64_t as_integer(bool value) {
  return value ? 1 : 0;
}

/// Lowers a reduction whose axes are an attribute in opset 17.
template <const char* Op>
void reduction(Lowering& to) {
  OnnxAttributes attributes = {{"keepdims", as_integer(to.flag("keepdim"))}};
  if (const auto axes = to.fixed_integers("dim"); !axes.empty()) attributes.emplace_back("axes", axes);  // none: all
  std::string self = to.tensor("self");
  const ScalarType dtype = to.dtype(to.node().output());
  if (common_type(to) != dtype) self = cast(to, self, dtype);
  to.set(to.graph().add(Op, {self}, attributes));
}

/// Lowers a sum. In opset 17 ReduceSum alone has its axes as an input.
void sum(Lowering& to) {
  std::string self = to.tensor("self");
  const ScalarType dtype = to.dtype(to.node().output());
  if (common_type(to) != dtype) self = cast(to, self, dtype);
  const std::string axes = to.graph().integers(to.fixed_integers("dim"));
  to.set(to.graph().add("ReduceSum", {self, axes}, {{"keepdims", as_integer(to.flag("keepdim"))}}));
}

void softmax(Lowering& to) {
  to.set(to.graph().add("Softmax", {to.tensor("self")}, {{"axis", to.fixed_integer("dim")}}));
}

void to_type(Lowering& to) {
  to.set(cast(to, to.tensor("self"), to.dtype(to.node().output())));
}

/// Lowers an operator that returns its input unchanged.
void same(Lowering& to) {
  to.set(to.tensor(to.node().input(0)));
}

constexpr char kRelu[] = "Relu", kTanh[] = "Tanh", kSigmoid[] = "Sigmoid", kExp[] = "Exp", kSqrt[] = "Sqrt",
               kRound[] = "Round";
constexpr char kNeg[] = "Neg", kCos[] = "Cos", kSin[] = "Sin", kErf[] = "Erf", kAbs[] = "Abs", kLog[] = "Log";
constexpr char kEqual[] = "Equal", kLess[] = "Less", kLessOrEqual[] = "LessOrEqual", kGreater[] = "Greater";
constexpr char kGreaterOrEqual[] = "GreaterOrEqual";
constexpr char kMean[] = "ReduceMean", kMin[] = "ReduceMin", kMax[] = "ReduceMax";

}  // namespace

const std::map<std::string_view, LowerOperator>& arithmetic_lowerings() {
  static const std::map<std::string_view, LowerOperator> table = {
      {"aten::add", binary<kAdd>},
      {"aten::sub", binary<kSub>},
      {"aten::rsub", reversed_sub},
      {"aten::mul", binary<kMul>},
      {"aten::div", divide},
      {"aten::remainder", remainder},
      {"aten::relu", unary<kRelu>},
      {"aten::tanh", unary<kTanh>},
      {"aten::sigmoid", unary<kSigmoid>},
      {"aten::exp", unary<kExp>},
      {"aten::log", unary<kLog>},
      {"aten::sqrt", unary<kSqrt>},
      {"aten::neg", unary<kNeg>},
      {"aten::abs", unary<kAbs>},
      {"aten::cos", unary<kCos>},
      {"aten::sin", unary<kSin>},
      {"aten::erf", unary<kErf>},
      {"aten::silu", silu},
      {"aten::gelu", gelu},
      {"aten::clamp_min", clamp_min},
      {"aten::clamp_max", clamp_max},
      {"aten::round", unary<kRound>},
      {"aten::eq", comparison<kEqual>},
      {"aten::ne", not_equal},
      {"aten::lt", comparison<kLess>},
      {"aten::le", comparison<kLessOrEqual>},
      {"aten::gt", comparison<kGreater>},
      {"aten::ge", comparison<kGreaterOrEqual>},
      {"aten::logical_and", logical_and},
      {"aten::logical_not", logical_not},
      {"aten::where", where},
      {"aten::masked_fill", masked_fill},
      {"aten::mean", reduction<kMean>},
      {"aten::amin", reduction<kMin>},
      {"aten::amax", reduction<kMax>},
      {"aten::sum", sum},
      {"aten::softmax", softmax},
      {"aten::to", to_type},
      {"aten::dropout", same},  // in evaluation
      {"aten::contiguous", same},
      {"aten::detach", same},
      {"aten::clone", same},
  };
  return table;
}

}  // namespace trainctl::exporters
