#include "model/layer.h"

#include <ATen/ops/empty.h>

#include <functional>
#include <numeric>

#include "core/checked.h"
#include "core/error.h"
#include "core/text.h"

namespace trainctl::model {
namespace {

/// Joins names. A child without a name, such as a model's stem, leaves its children's names unchanged.
std::string join(const std::string& prefix, const std::string& name) {
  if (prefix.empty()) return name;
  return name.empty() ? prefix : prefix + "." + name;
}

/// Returns a meta tensor of a parameter; throws if its size in bytes could overflow.
at::Tensor meta_tensor(const std::vector<std::int64_t>& shape, at::ScalarType dtype) {
  constexpr std::int64_t kMaxElements = std::int64_t{1} << 56;
  if (core::checked_product(shape).value_or(kMaxElements) >= kMaxElements) {
    std::string text;
    for (const std::int64_t dim : shape) text += (text.empty() ? "" : " x ") + core::format_count(dim);
    throw core::Error("a layer of the model is too large, got " + text + " elements")
        .hint("make the sizes in model smaller");
  }
  return at::empty(shape, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

}  // namespace

at::Tensor Shard::of(const at::Tensor& whole) const {
  const std::int64_t section = whole.size(dim) / sections;
  return whole.unflatten(dim, {sections, section}).narrow(dim + 1, range.begin, range.size).flatten(dim, dim + 1);
}

runtime::ElementRuns Shard::runs() const {
  const auto first = static_cast<std::size_t>(dim);
  const std::int64_t per_feature = std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(first) + 1, shape.end(),
                                                   std::int64_t{1}, std::multiplies{});
  return {.length = range.size * per_feature,
          .distance = shape[first] / sections * per_feature,
          .first = range.begin * per_feature};
}

void Layer::keep_part(const at::Tensor& parameter, std::int64_t dim, const TensorRanks& ranks, std::int64_t sections) {
  for (TensorDecl& decl : parameters_) {
    if (decl.value.unsafeGetTensorImpl() != parameter.unsafeGetTensorImpl()) continue;
    core::ensure(!decl.shard, "a parameter is split once: " + decl.name);
    std::vector<std::int64_t> shape = decl.value.sizes().vec();
    const FeatureRange range = range_of(shape[static_cast<std::size_t>(dim)] / sections, ranks);
    decl.shard = Shard{.shape = shape, .dim = dim, .sections = sections, .range = range};
    shape[static_cast<std::size_t>(dim)] = sections * range.size;
    decl.value = meta_tensor(shape, decl.value.scalar_type());
    return;
  }
  core::ensure(false, "a layer splits its own parameters");
}

void Layer::visit_parameters(const TensorVisitor& visit, const std::string& prefix) {
  for (TensorDecl& decl : parameters_)
    if (!decl.is_dropped) visit(join(prefix, decl.name), decl);
  for (auto& [name, layer] : children_) layer->visit_parameters(visit, join(prefix, name));
}

void Layer::visit_own_parameters(const std::function<void(TensorDecl&)>& visit) {
  for (TensorDecl& decl : parameters_)
    if (!decl.is_dropped) visit(decl);
}

void Layer::visit_buffers(const TensorVisitor& visit, const std::string& prefix) {
  for (TensorDecl& decl : buffers_)
    if (!decl.is_dropped) visit(join(prefix, decl.name), decl);
  for (auto& [name, layer] : children_) layer->visit_buffers(visit, join(prefix, name));
}

void Layer::visit_layers(const LayerVisitor& visit, const std::string& prefix) {
  visit(prefix, *this);
  for (auto& [name, layer] : children_) layer->visit_layers(visit, join(prefix, name));
}

void drop(TensorDecl& decl) {
  decl.is_dropped = true;
  decl.value = meta_tensor(decl.value.sizes().vec(), decl.value.scalar_type());
}

void Layer::place(c10::Device device, Output output) {
  const auto place_tensor = [&](const std::string&, TensorDecl& decl) { decl.device = device; };
  visit_parameters(place_tensor);
  visit_buffers(place_tensor);
  visit_layers([](const std::string&, Layer& layer) { layer.device_.reset(); });
  device_ = device;
  output_ = output;
}

void Layer::drop_state() {
  for (TensorDecl& decl : parameters_) drop(decl);
  for (TensorDecl& decl : buffers_) drop(decl);
}

void Layer::set_training(bool training) {
  training_ = training;
  for (auto& [name, layer] : children_) layer->set_training(training);
}

at::Tensor& Layer::parameter(std::string name, std::vector<std::int64_t> shape, Init init) {
  parameters_.push_back({std::move(name), meta_tensor(shape, at::kFloat), init});
  return parameters_.back().value;
}

at::Tensor& Layer::parameter(std::string name, const at::Tensor& first_values) {
  at::Tensor& value = parameter(std::move(name), first_values.sizes().vec(), Init::constant(0));
  parameters_.back().stored = first_values.detach();
  parameters_.back().trainable = first_values.requires_grad();
  return value;
}

at::Tensor& Layer::buffer(std::string name, const at::Tensor& first_values) {
  const at::ScalarType dtype = first_values.is_floating_point() ? at::kFloat : first_values.scalar_type();
  at::Tensor& value = buffer(std::move(name), first_values.sizes().vec(), dtype, 0);
  buffers_.back().stored = first_values.detach();
  return value;
}

void Layer::remove_child(const Layer& layer) {
  std::erase_if(children_, [&](const auto& named) { return named.second.get() == &layer; });
}

at::Tensor& Layer::buffer(std::string name, std::vector<std::int64_t> shape, at::ScalarType dtype, double value) {
  buffers_.push_back({std::move(name), meta_tensor(shape, dtype), Init::constant(value)});
  return buffers_.back().value;
}

}  // namespace trainctl::model
