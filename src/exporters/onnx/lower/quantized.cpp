// Lowerings of values in eight bits: pairs of QuantizeLinear and DequantizeLinear around operators that compute in
// floats, which runtimes fuse into operators on bytes.
#include "exporters/onnx/lower/lowering.h"

namespace trainctl::exporters {
namespace {

/// Returns the zero point in the type of its levels.
std::string zero_point(Lowering& to, at::ScalarType dtype) {
  const auto* value = to.argument("zero_point");
  const auto stored = to.find_stored(value);
  if (!stored) return to.graph().add("Cast", {to.tensor(value)}, {{"to", std::int64_t{onnx_type(dtype)}}});
  const auto number = stored->tensor.item<std::int64_t>();
  return to.graph().number(static_cast<double>(number), dtype);
}

/// Lowers a rounding of floats to bytes with one scale; the bytes are signed if the trace's are.
void quantize_per_tensor(Lowering& to) {
  const auto dtype = static_cast<at::ScalarType>(to.fixed_integer("dtype"));
  const Lowering::QParams levels{.scale = to.tensor("scale"),
                                 .zero_point = zero_point(to, dtype == at::kQInt8 ? at::kChar : at::kByte)};
  const std::string name = to.graph().add("QuantizeLinear", {to.tensor("self"), levels.scale, levels.zero_point});
  to.set_levels(to.node().output(), name, levels);
}

/// Adds no node: stored levels become an input of the operator that uses their floats.
void where_used(Lowering&) {}

}  // namespace

const std::map<std::string_view, LowerOperator>& quantization_lowerings() {
  static const std::map<std::string_view, LowerOperator> table = {
      {"aten::quantize_per_tensor", quantize_per_tensor},
      {"aten::_make_per_channel_quantized_tensor", where_used},
      {"aten::dequantize", where_used},
  };
  return table;
}

}  // namespace trainctl::exporters
