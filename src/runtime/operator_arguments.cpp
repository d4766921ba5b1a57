#include "runtime/operator_arguments.h"

namespace trainctl::runtime {

bool any(const Stack& stack, std::size_t first, bool (*holds)(const at::Tensor&)) {
  bool found = false;
  for (std::size_t i = first; i < stack.size() && !found; ++i)
    visit_tensors(stack[i], [&](const at::Tensor& tensor) { found = found || (tensor.defined() && holds(tensor)); });
  return found;
}

std::optional<std::size_t> written_argument(const c10::FunctionSchema& schema, std::size_t result) {
  const c10::AliasInfo* alias = schema.returns()[result].alias_info();
  if (alias == nullptr || !alias->isWrite()) return std::nullopt;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* other = schema.arguments()[i].alias_info();
    if (other != nullptr && other->isWrite() && other->beforeSets() == alias->beforeSets()) return i;
  }
  return std::nullopt;
}

}  // namespace trainctl::runtime
