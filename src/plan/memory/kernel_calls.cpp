#include "plan/memory/kernel_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace trainctl::plan {

std::int64_t KernelCalls::bound(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  std::optional<KernelCall> call = find_kernel_call(op, stack);
  if (!call) return 0;
  const std::int64_t bytes = call->bound;
  const std::string key = call->key() + " " + std::to_string(call->batch());
  Shape& shape = shapes_.try_emplace(key, Shape{.call = std::move(*call), .pieces = {}}).first->second;
  shape.pieces.push_back(log_.next_piece());
  return bytes;
}

KernelCalls::Shape* KernelCalls::find_unmeasured(std::int64_t moment) {
  for (auto& [key, shape] : shapes_) {
    if (shape.is_measured) continue;
    const auto is_held = [&](std::int64_t piece) { return log_.is_held(piece, moment); };
    if (std::any_of(shape.pieces.begin(), shape.pieces.end(), is_held)) return &shape;
  }
  return nullptr;
}

void KernelCalls::resize(const Shape& shape, std::int64_t bytes) {
  for (const std::int64_t piece : shape.pieces) log_.resize(piece, bytes);
}

void KernelCalls::settle() {
  while (Shape* shape = find_unmeasured(log_.highest(0, log_.now()))) {
    resize(*shape, workspaces_.measure(shape->call));
    shape->is_measured = true;
  }
  for (const auto& [key, shape] : shapes_)
    if (!shape.is_measured) resize(shape, std::min(shape.call.usual, shape.call.bound));
  workspaces_.save();
}

}  // namespace trainctl::plan
