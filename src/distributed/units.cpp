#include "distributed/units.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_set>

namespace trainctl::distributed {
namespace {

using Address = const c10::TensorImpl*;

class Ready final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Ready(std::function<void()> function) : function_(std::move(function)) {}
  void operator()(const torch::autograd::Variable&) override { function_(); }

 private:
  std::function<void()> function_;
};

std::unique_ptr<FlatParameters> flat(std::vector<model::NamedTensor> parameters, const ShardLayout& layout) {
  return parameters.empty() ? nullptr : std::make_unique<FlatParameters>(std::move(parameters), layout);
}

Unit make_unit(const std::vector<model::NamedTensor>& parameters, const ShardLayout& layout) {
  std::vector<model::NamedTensor> trained;
  std::vector<model::NamedTensor> frozen;
  for (const model::NamedTensor& named : parameters) (named.tensor.requires_grad() ? trained : frozen).push_back(named);
  Unit unit;
  unit.trained = flat(std::move(trained), layout);
  if (layout.whole == Whole::kept) return unit;
  ShardLayout unchanging = layout;
  unchanging.masters = nullptr;
  unit.frozen = flat(std::move(frozen), unchanging);
  return unit;
}

bool holds(const FlatParameters* parameters, Address tensor) {
  if (parameters == nullptr) return false;
  return std::any_of(parameters->entries().begin(), parameters->entries().end(),
                     [&](const FlatParameters::Entry& entry) { return entry.tensor.unsafeGetTensorImpl() == tensor; });
}

/// Returns the parameters of the block's own layers, and those of a head that projects to another block's embeddings.
std::vector<Address> parameters_used(model::Model& model, const model::Block& block) {
  std::vector<Address> used;
  block.layer->visit_parameters(
      [&](const std::string&, model::TensorDecl& decl) { used.push_back(decl.value.unsafeGetTensorImpl()); });
  if (model::VocabularyHead* head = model.vocabulary_head(); head != nullptr && block.layer == head)
    for (const at::Tensor& tensor : {head->weight(), head->bias()})
      if (tensor.defined()) used.push_back(tensor.unsafeGetTensorImpl());
  return used;
}

}  // namespace

void Unit::bring() {
  if (trained) trained->bring();
  if (frozen) frozen->bring();
}

void Unit::start_gather() {
  if (trained) trained->start_gather();
  if (frozen) frozen->start_gather();
}

void Unit::gather() {
  start_gather();
  if (trained) trained->gather();
  if (frozen) frozen->gather();
}

void Unit::release() {
  if (trained) trained->release();
  if (frozen) frozen->release();
}

std::vector<Unit> make_units(model::Model& model, const ShardLayout& layout) {
  std::unordered_map<Address, model::NamedTensor> waiting;
  std::vector<Address> order;
  for (model::NamedTensor& named : model::named_parameters(model)) {
    order.push_back(named.tensor.unsafeGetTensorImpl());
    waiting.emplace(order.back(), std::move(named));
  }
  std::vector<Unit> units;
  const auto add_unit = [&](const std::vector<Address>& wanted) {
    std::vector<model::NamedTensor> parameters;
    for (const Address address : wanted)
      if (const auto found = waiting.find(address); found != waiting.end()) {
        parameters.push_back(std::move(found->second));
        waiting.erase(found);
      }
    if (!parameters.empty()) units.push_back(make_unit(parameters, layout));
  };
  for (const model::Block& block : model.blocks()) add_unit(parameters_used(model, block));
  add_unit(order);
  return units;
}

std::vector<std::size_t> units_used(const std::vector<Unit>& units, model::Model& model, const model::Block& block) {
  const std::vector<Address> parameters = parameters_used(model, block);
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < units.size(); ++i)
    if (std::any_of(parameters.begin(), parameters.end(), [&](Address tensor) {
          return holds(units[i].trained.get(), tensor) || holds(units[i].frozen.get(), tensor);
        }))
      used.push_back(i);
  return used;
}

void on_gradient(const at::Tensor& parameter, std::function<void()> ready) {
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Ready>(std::move(ready)));
}

}  // namespace trainctl::distributed
