#include "roofline/op_cost.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

namespace trainctl::roofline {
namespace {

using enum WorkKind;

double product_of(const Operation::Shape& shape) {
  double all = 1;
  for (const std::int64_t size : shape) all *= static_cast<double>(size);
  return all;
}

bool begins_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

/// Its two factors: those of addmm and its like follow what is added to.
void count_product(const DispatchedOperator& call, Operation& operation) {
  const bool adds = call.name.find("addmm") != std::string_view::npos ||
                    call.name.find("addbmm") != std::string_view::npos ||
                    call.name.find("addmv") != std::string_view::npos;
  const std::size_t first = adds ? 1 : 0;
  if (call.inputs.size() < first + 2) return;
  const Operation::Shape& left = call.inputs[first].shape;
  const Operation::Shape& right = call.inputs[first + 1].shape;
  if (left.empty() || right.empty()) return;
  const bool is_linear = call.name.find("linear") != std::string_view::npos;  // weight [out, in]
  const double inner = static_cast<double>(left.back());
  const double columns = right.size() == 1 ? 1 : static_cast<double>(is_linear ? right[0] : right.back());
  const double rows = inner > 0 ? product_of(left) / inner : 0;
  const double each_rows = left.size() == 3 && !is_linear ? static_cast<double>(left[1]) : rows;
  operation.flops = 2 * rows * inner * columns;
  operation.least_extent = static_cast<std::int64_t>(std::min({each_rows, inner, columns}));
  operation.first = left;
  operation.second = right;
}

WorkKind convolution_kind(const Operation::Shape& input, const Operation::Shape& weight, bool is_backward) {
  const bool is_depthwise = weight[1] == 1 && input[1] == weight[0] && weight[0] > 1;
  if (is_depthwise) return is_backward ? depthwise_backward : depthwise;
  if (weight[1] <= 4) return is_backward ? stem_backward : stem;
  if (product_of(weight) == static_cast<double>(weight[0] * weight[1]))
    return is_backward ? pointwise_backward : pointwise;
  return is_backward ? convolution_backward : convolution;
}

/// Input [B, C, ...], weight [O, C / groups, ...], output [B, O, ...].
void count_convolution(const DispatchedOperator& call, bool is_backward, Operation& operation) {
  const std::size_t first = is_backward ? 1 : 0;
  if (call.inputs.size() < first + 2) return;
  const TensorUse& input = call.inputs[first];
  const Operation::Shape& weight = call.inputs[first + 1].shape;
  const Operation::Shape& output = is_backward            ? call.inputs[0].shape
                                   : call.outputs.empty() ? call.convolved
                                                          : call.outputs[0].shape;
  if (weight.size() < 3 || weight[0] == 0 || input.shape.size() != weight.size() || output.empty()) return;
  const double flops = 2 * product_of(output) * product_of(weight) / static_cast<double>(weight[0]);
  operation.kind = convolution_kind(input.shape, weight, is_backward);
  operation.flops = is_backward ? call.num_gradients * flops : flops;
  operation.order = input.order;
  operation.first = input.shape;
  operation.second = weight;
}

/// q [B, H, T, d], k [B, H, S, d], or [B, T, H, d] and [B, S, H, d]: two products forward, five backward.
void count_attention(const DispatchedOperator& call, bool is_backward, Operation& operation) {
  const bool begins_with_gradient = is_backward && begins_with(call.name, "aten::");
  const std::size_t first = begins_with_gradient ? 1 : 0;
  if (call.inputs.size() < first + 2) return;
  const Operation::Shape& q = call.inputs[first].shape;
  const Operation::Shape& k = call.inputs[first + 1].shape;
  if (q.size() != 4 || k.size() != 4) return;
  const bool has_tokens_first =
      begins_with(call.name, "aten::_flash_attention") || begins_with(call.name, "aten::_efficient_attention");
  const double num_keys = static_cast<double>(k[has_tokens_first ? 1 : 2]);
  const double product = 2 * product_of(q) * num_keys * (call.is_causal ? 0.5 : 1);
  operation.flops = product * (is_backward ? 5 : 2);
  operation.first = q;
  operation.second = k;
}

/// Input [T, B, D], weights [4 H, D] and [4 H, H].
void count_recurrence(const DispatchedOperator& call, bool is_backward, Operation& operation) {
  if (call.inputs.size() < 3 || call.inputs[0].shape.size() != 3) return;
  const Operation::Shape& input = call.inputs[0].shape;
  const double tokens = static_cast<double>(input[0] * input[1]);
  const double weights = product_of(call.inputs[1].shape) + product_of(call.inputs[2].shape);
  operation.flops = 2 * tokens * weights * (is_backward ? 2 : 1);
}

void count_flops(const DispatchedOperator& call, Operation& operation) {
  const WorkKind kind = operation.kind;
  if (kind == product || kind == batched_product) return count_product(call, operation);
  if (kind == convolution || kind == convolution_backward)
    return count_convolution(call, kind == convolution_backward, operation);
  if (kind == attention || kind == attention_backward)
    return count_attention(call, kind == attention_backward, operation);
  if (kind == recurrence || kind == recurrence_backward)
    return count_recurrence(call, kind == recurrence_backward, operation);
}

double moved_bytes(const DispatchedOperator& call, const OpCostRule& rule) {
  const double inputs = call.input_bytes;
  const double outputs = call.outputs.empty() ? call.allocated_bytes : call.output_bytes;
  switch (rule.bytes) {
    case ByteRule::all:
      return (inputs + (rule.kind == update ? 0 : outputs)) * rule.factor;
    case ByteRule::written:
      return outputs;
    case ByteRule::twice_written:
      return call.name == "aten::copy_" && call.inputs.size() > 1 ? outputs + call.inputs[1].bytes : 2 * outputs;
    case ByteRule::added:
      return outputs + 2 * (call.inputs.empty() ? 0 : call.inputs.back().bytes);
    case ByteRule::by_allocated:
      return rule.factor * std::max(call.allocated_bytes, call.output_bytes);
  }
  return 0;
}

/// What it gives lies where something that it was given lies, and was not written to.
bool moves_nothing(const DispatchedOperator& call) {
  if (call.outputs.empty() || call.inputs.empty() || call.name.back() == '_') return false;
  return std::all_of(call.outputs.begin(), call.outputs.end(), [&](const TensorUse& output) {
    const bool is_view = std::any_of(call.inputs.begin(), call.inputs.end(), [&](const TensorUse& input) {
      return input.storage == output.storage && input.tensor != output.tensor;
    });
    return output.storage == nullptr || is_view || output.tensor == call.inputs[0].tensor;
  });
}

/// A name that LibTorch records beside its operators ("detach", c10d's), whose work isn't known from it.
bool is_only_announced(const DispatchedOperator& call, const OpCostRule& rule) {
  return call.outputs.empty() && rule.role == OperatorRole::any && !begins_with(call.name, "aten::");
}

/// Between two orders of the same elements.
bool transposes(const DispatchedOperator& call) {
  if (call.inputs.empty() || call.outputs.empty()) return false;
  const TensorUse& from =
      call.name == "aten::copy_" ? call.inputs[std::min<std::size_t>(1, call.inputs.size() - 1)] : call.inputs[0];
  const TensorUse& to = call.outputs[0];
  if (from.shape.size() != to.shape.size()) return false;
  const auto innermost = [](const TensorUse& tensor) {
    std::size_t least = 0;
    for (std::size_t i = 1; i < tensor.strides.size(); ++i)
      if (tensor.shape[i] > 1 && (tensor.shape[least] == 1 || tensor.strides[i] <= tensor.strides[least])) least = i;
    return least;
  };
  return from.strides.size() == to.strides.size() && !to.strides.empty() && innermost(from) != innermost(to);
}

/// Whether the operator's argument at `place` makes attention causal. Other flags, such as return_debug_mask, stand
/// beside it.
bool names_causal(std::string_view name, std::size_t place) {
  const auto schema = c10::Dispatcher::singleton().findSchema({std::string(name), ""});
  if (!schema) return false;
  for (const char* flag : {"is_causal", "causal"})
    if (schema->schema().argumentIndexWithName(flag) == static_cast<int>(place)) return true;
  return false;
}

}  // namespace

void read_flags(const c10::IValue& argument, std::size_t place, DispatchedOperator& call) {
  if (argument.isBool() && argument.toBool() && names_causal(call.name, place)) call.is_causal = true;
  if (!argument.isBoolList()) return;
  if (const c10::List<bool> mask = argument.toBoolList(); mask.size() == 3)
    call.num_gradients = int{mask.get(0)} + int{mask.get(1)};
}

Operation operator_cost(const DispatchedOperator& call, const OpCostRule& rule) {
  Operation operation;
  operation.kind = rule.kind;
  const auto& typed = call.inputs.empty() ? call.outputs : call.inputs;
  if (!typed.empty()) {
    operation.dtype = typed[0].dtype;
    operation.order = typed[0].order;
    operation.first = typed[0].shape;
    if (typed.size() > 1) operation.second = typed[1].shape;
  }
  if (rule.role == OperatorRole::allocation || rule.role == OperatorRole::view || moves_nothing(call) ||
      is_only_announced(call, rule))
    return operation;
  operation.bytes = moved_bytes(call, rule);
  count_flops(call, operation);
  if (operation.kind == stream && rule.bytes == ByteRule::twice_written && transposes(call))
    operation.kind = transposition;
  return operation;
}

}  // namespace trainctl::roofline
