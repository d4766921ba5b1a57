#include "plan/kernel_memory.h"

#include <ATen/core/Tensor.h>

#include <string_view>
#include <unordered_map>

namespace trainctl {
namespace {

using Stack = torch::jit::Stack;
using Law = std::int64_t (*)(const c10::IValue* arguments);

std::int64_t bytes_of(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return 0;
  return static_cast<std::int64_t>(value.toTensor().nbytes());
}

/// oneDNN lays weights out anew, in blocks: as measured.
std::int64_t convolution(const c10::IValue* arguments) {
  return bytes_of(arguments[1]);
}
std::int64_t convolution_backward(const c10::IValue* arguments) {
  return 2 * bytes_of(arguments[2]);  // the weights' gradient, in two orders
}

/// Both sides in blocks where they are of 16 bits.
std::int64_t product(const c10::IValue* arguments) {
  const at::Tensor& left = arguments[0].toTensor();
  return left.scalar_type() == at::kBFloat16 || left.scalar_type() == at::kHalf ? bytes_of(arguments[1]) : 0;
}

std::int64_t law_of(const std::unordered_map<std::string_view, Law>& laws, const c10::OperatorHandle& op,
                    const Stack& stack) {
  const auto found = laws.find(op.operator_name().name);
  return found == laws.end() ? 0 : found->second(&stack[stack.size() - op.schema().arguments().size()]);
}

}  // namespace

std::int64_t cpu_kernel_memory(const c10::OperatorHandle& op, const Stack& stack) {
  static const std::unordered_map<std::string_view, Law> laws{{"aten::convolution", &convolution},
                                                              {"aten::convolution_backward", &convolution_backward},
                                                              {"aten::mm", &product}};
  return law_of(laws, op, stack);
}

std::int64_t cuda_kernel_memory(const c10::OperatorHandle& op, const Stack& stack) {
  // cuDNN's algorithms take what they are given up to a limit; a copy of the weights is what the fast ones take at
  // least.
  static const std::unordered_map<std::string_view, Law> laws{{"aten::convolution", &convolution},
                                                              {"aten::convolution_backward", &convolution_backward}};
  return law_of(laws, op, stack);
}

}  // namespace trainctl
