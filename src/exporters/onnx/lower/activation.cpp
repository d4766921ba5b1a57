// Lowerings of activations that ONNX has, or that a few of its operators make.
#include "exporters/onnx/lower/lowering.h"

namespace trainctl::exporters {
namespace {

void hardtanh(Lowering& to) {
  const at::ScalarType dtype = to.dtype(to.argument("self"));
  const std::string low = to.graph().number(to.fixed_number("min_val"), dtype);
  const std::string high = to.graph().number(to.fixed_number("max_val"), dtype);
  to.set(to.graph().add("Clip", {to.tensor("self"), low, high}));
}

void hardswish(Lowering& to) {
  to.set(to.graph().add("HardSwish", {to.tensor("self")}));
}

void hardsigmoid(Lowering& to) {
  to.set(to.graph().add("HardSigmoid", {to.tensor("self")}, {{"alpha", 1.0F / 6}, {"beta", 0.5F}}));
}

void leaky_relu(Lowering& to) {
  to.set(to.graph().add("LeakyRelu", {to.tensor("self")},
                        {{"alpha", static_cast<float>(to.fixed_number("negative_slope"))}}));
}

void elu(Lowering& to) {
  if (to.fixed_number("scale") != 1 || to.fixed_number("input_scale") != 1) to.refuse("it is scaled");
  to.set(to.graph().add("Elu", {to.tensor("self")}, {{"alpha", static_cast<float>(to.fixed_number("alpha"))}}));
}

void softplus(Lowering& to) {
  if (to.fixed_number("beta") != 1) to.refuse("its beta isn't 1");
  to.set(to.graph().add("Softplus", {to.tensor("self")}));
}

/// Lowers x tanh(log(1 + exp x)).
void mish(Lowering& to) {
  const std::string x = to.tensor("self");
  to.set(to.graph().add("Mul", {x, to.graph().add("Tanh", {to.graph().add("Softplus", {x})})}));
}

}  // namespace

const std::map<std::string_view, LowerOperator>& activation_lowerings() {
  static const std::map<std::string_view, LowerOperator> table = {
      {"aten::hardtanh", hardtanh},
      {"aten::hardswish", hardswish},
      {"aten::hardsigmoid", hardsigmoid},
      {"aten::leaky_relu", leaky_relu},
      {"aten::elu", elu},
      {"aten::softplus", softplus},
      {"aten::mish", mish},
  };
  return table;
}

}  // namespace trainctl::exporters
