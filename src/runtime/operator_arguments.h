// The tensors among what an operator is given, as the dispatcher hands it to a kernel for any operator.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace trainctl::runtime {

using Stack = torch::jit::Stack;

template <class Visit>
void visit_tensors(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) return visit(value.toTensor());
  if (value.isTensorList())
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  else if (value.isList())
    for (const c10::IValue& element : value.toListRef())
      if (element.isTensor()) visit(element.toTensor());
}

/// The value with its tensors replaced.
template <class Change>
c10::IValue changed(const c10::IValue& value, const Change& change) {
  if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(change(value.toTensor())) : value;
  if (value.isTensorList()) {
    std::vector<at::Tensor> tensors = value.toTensorVector();
    for (at::Tensor& tensor : tensors) tensor = change(tensor);
    return tensors;
  }
  if (value.isList() && value.toList().elementType()->isSubtypeOf(*c10::OptionalType::ofTensor()) &&
      value.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const c10::IValue& element : value.toListRef())
      tensors.push_back(element.isTensor() && element.toTensor().defined() ? std::optional(change(element.toTensor()))
                                                                           : std::nullopt);
    return tensors;
  }
  return value;
}

/// Whether it holds of one of the tensors from the argument at `first` on.
bool any(const Stack& stack, std::size_t first, bool (*holds)(const at::Tensor&));

/// The argument that a result is, by the schema; none: the result is new, or a view.
std::optional<std::size_t> written_argument(const c10::FunctionSchema& schema, std::size_t result);

}  // namespace trainctl::runtime
