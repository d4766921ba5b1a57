#include "model/layer.h"

#include <ATen/ops/empty.h>

#include "core/checked.h"
#include "core/error.h"
#include "core/text.h"

namespace trainctl::model {
namespace {

/// Children without a name of their own (a model's stem) leave their own children's names as they are.
std::string join(const std::string& prefix, const std::string& name) {
  if (prefix.empty()) return name;
  return name.empty() ? prefix : prefix + "." + name;
}

/// A parameter's, of which no two are over the largest that can be counted in bytes.
at::Tensor meta_tensor(const std::vector<std::int64_t>& shape, at::ScalarType dtype) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 56;
  if (core::checked_product(shape).value_or(kMostElements) >= kMostElements) {
    std::string text;
    for (const std::int64_t dim : shape) text += (text.empty() ? "" : " x ") + core::format_count(dim);
    throw core::Error("a layer of the model is " + text + ", more than any machine can hold")
        .hint("make the sizes in model smaller");
  }
  return at::empty(shape, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

}  // namespace

void Layer::visit_parameters(const SlotVisitor& visit, const std::string& prefix) {
  for (Slot& slot : parameters_)
    if (!slot.is_dropped) visit(join(prefix, slot.name), slot);
  for (auto& [name, layer] : children_) layer->visit_parameters(visit, join(prefix, name));
}

void Layer::visit_buffers(const SlotVisitor& visit, const std::string& prefix) {
  for (Slot& slot : buffers_)
    if (!slot.is_dropped) visit(join(prefix, slot.name), slot);
  for (auto& [name, layer] : children_) layer->visit_buffers(visit, join(prefix, name));
}

void Layer::visit_layers(const LayerVisitor& visit, const std::string& prefix) {
  visit(prefix, *this);
  for (auto& [name, layer] : children_) layer->visit_layers(visit, join(prefix, name));
}

void Layer::drop_state() {
  const auto drop = [](std::deque<Slot>& slots) {
    for (Slot& slot : slots) {
      slot.is_dropped = true;
      slot.value = meta_tensor(slot.value.sizes().vec(), slot.value.scalar_type());
    }
  };
  drop(parameters_);
  drop(buffers_);
}

void Layer::set_training(bool training) {
  training_ = training;
  for (auto& [name, layer] : children_) layer->set_training(training);
}

at::Tensor& Layer::parameter(std::string name, std::vector<std::int64_t> shape, Init init) {
  parameters_.push_back({std::move(name), meta_tensor(shape, at::kFloat), init});
  return parameters_.back().value;
}

void Layer::remove_child(const Layer& layer) {
  std::erase_if(children_, [&](const auto& named) { return named.second.get() == &layer; });
}

at::Tensor& Layer::buffer(std::string name, std::vector<std::int64_t> shape, at::ScalarType dtype, double value) {
  buffers_.push_back({std::move(name), meta_tensor(shape, dtype), Init::constant(value)});
  return buffers_.back().value;
}

}  // namespace trainctl::model
