#include "distributed/sharded_state.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"

namespace trainctl::distributed {
namespace {

/// This rank's part of a parameter.
struct Stretch {
  runtime::PartOf place;
  std::int64_t begin = 0;  // in the shard
  std::int64_t count = 0;
};
using Stretches = std::map<std::string, Stretch>;  // by the parameter's name

Stretches stretches_of(const FlatParameters& parameters, const ShardHolder& holder) {
  const std::int64_t begin = holder.shard * parameters.shard_size();
  const std::int64_t end = begin + parameters.shard_size();
  Stretches found;
  for (const FlatParameters::Entry& entry : parameters.entries()) {
    const std::int64_t first = std::max(entry.offset, begin);
    const std::int64_t last = std::min(entry.offset + entry.numel, end);
    if (first >= last) continue;
    runtime::PartOf place = place_of_parameter(entry.tensor, entry.shard);
    place.offset = first - entry.offset;
    place.copy = holder.copy;
    place.num_copies = holder.num_copies;
    Stretch stretch{.place = std::move(place), .begin = first - begin, .count = last - first};
    found.emplace(entry.name, std::move(stretch));
  }
  return found;
}

/// A visitor of an optimizer whose parameters are this rank's parts. Passes on each slot as a part of the whole.
class ShardedSlots final : public runtime::State {
 public:
  ShardedSlots(runtime::State& inner, const Stretches& stretches) : inner_(inner), stretches_(stretches) {}

  void slot(const runtime::SlotKey& key, at::Tensor& value) override {
    const auto found = stretches_.find(key.parameter);
    if (found == stretches_.end()) return refuse(key.name());
    const Stretch& stretch = found->second;
    if (value.dim() == 0) {
      // Every rank with a stretch of the parameter has the number; the rank with the first stretch saves it.
      at::Tensor flat = value.view({1});
      const std::int64_t copies = stretch.place.num_copies;
      const std::int64_t copy = stretch.place.offset == 0 ? stretch.place.copy : copies;
      return inner_.part(key.name(), flat,
                         {.shape = {}, .strides = {}, .copy = copy, .num_copies = copies, .slot = key});
    }
    core::ensure(value.dim() == 1 && value.numel() == stretch.count,
                 "an optimizer's state has the layout of its parameter: " + key.name());
    runtime::PartOf place = stretch.place;
    place.slot = key;
    inner_.part(key.name(), value, place);
  }
  void tensor(const std::string& name, at::Tensor&) override { refuse(name); }
  void part(const std::string& name, at::Tensor&, const runtime::PartOf&) override { refuse(name); }
  bool has(const std::string& name) override { return inner_.has(name); }
  void integer(const std::string& name, std::int64_t& value) override { inner_.integer(name, value); }
  void number(const std::string& name, double& value) override { inner_.number(name, value); }
  void text(const std::string& name, std::string& value) override { inner_.text(name, value); }

 private:
  static void refuse(const std::string& name) { core::ensure(false, "an optimizer's state is of parameters: " + name); }

  runtime::State& inner_;
  const Stretches& stretches_;
};

Stretches trained_stretches(const std::vector<Unit>& units, const ShardHolder& holder) {
  Stretches trained;
  for (const Unit& unit : units)
    if (unit.trained) trained.merge(stretches_of(*unit.trained, holder));
  return trained;
}

void visit_model(runtime::State& state, std::vector<Unit>& units, const ShardHolder& holder, model::Model& model) {
  std::set<const c10::TensorImpl*> seen;
  for (const Unit& unit : units)
    for (const FlatParameters* parameters : {unit.trained.get(), unit.frozen.get()}) {
      if (parameters == nullptr) continue;
      for (const auto& [name, stretch] : stretches_of(*parameters, holder)) {
        at::Tensor flat = parameters->shard().narrow(0, stretch.begin, stretch.count);
        state.part(name, flat, stretch.place);
      }
      for (const FlatParameters::Entry& entry : parameters->entries()) seen.insert(entry.tensor.unsafeGetTensorImpl());
    }
  for (model::NamedTensor& named : model::named_parameters(model))
    if (!seen.contains(named.tensor.unsafeGetTensorImpl())) state.tensor(named.name, named.tensor);
  for (model::NamedTensor& named : model::named_buffers(model)) state.tensor(named.name, named.tensor);
}

}  // namespace

runtime::PartOf place_of_parameter(const at::Tensor& parameter, const std::optional<model::Shard>& shard) {
  if (!shard) return {.shape = parameter.sizes().vec(), .strides = parameter.strides().vec()};
  std::vector<std::int64_t> strides(shard->shape.size());
  std::int64_t stride = 1;
  for (std::size_t dim = strides.size(); dim-- > 0; stride *= shard->shape[dim]) strides[dim] = stride;
  return {.shape = shard->shape, .strides = std::move(strides), .runs = shard->runs()};
}

void visit_sharded(runtime::State& state, optimizer::Optimizer& optimizer, std::vector<Unit>& units,
                   const ShardHolder& holder, model::Model& model) {
  const at::NoGradGuard no_grad;
  runtime::PrefixedState model_state(state, "model");
  visit_model(model_state, units, holder, model);
  const Stretches trained = trained_stretches(units, holder);
  runtime::PrefixedState optimizer_state(state, "optimizer");
  ShardedSlots slots(optimizer_state, trained);
  optimizer.visit_state(slots);
}

void visit_sharded(runtime::State& state, optimizer::Ema& ema, const std::vector<Unit>& units,
                   const ShardHolder& holder) {
  const Stretches trained = trained_stretches(units, holder);
  ShardedSlots slots(state, trained);
  ema.visit_state(slots);
}

}  // namespace trainctl::distributed
