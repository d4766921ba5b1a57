#include "distributed/whole_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "core/error.h"

namespace trainctl {
namespace {

/// What an optimizer has for this rank's pieces, by name; the tensors and numbers are its own.
class Collected final : public State {
 public:
  void tensor(const std::string& name, at::Tensor& value) override { tensors.emplace(name, value); }
  void integer(const std::string& name, std::int64_t& value) override { integers.emplace(name, &value); }
  void number(const std::string& name, double&) override { refuse(name); }
  void text(const std::string& name, std::string&) override { refuse(name); }

  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::int64_t*> integers;

 private:
  static void refuse(const std::string& name) { ensure(false, "an optimizer's state is of parameters: " + name); }
};

enum class SlotKind : char { tensor = 't', scalar = 's', integer = 'i' };
struct StateSlot {
  std::string name;  // "exp_avg"
  SlotKind kind = SlotKind::tensor;
  auto operator<=>(const StateSlot&) const = default;
};

/// "exp_avg.layer.weight" is slot "exp_avg" of parameter "layer.weight".
std::set<StateSlot> slots_of(const Collected& mine, const std::vector<Unit>& units) {
  std::set<StateSlot> slots;
  const auto add = [&](const std::string& full, SlotKind kind) {
    std::size_t longest = 0;  // of the parameters' names that it ends with
    for (const Unit& unit : units) {
      if (!unit.trained) continue;
      for (const FlatParameters::Entry& entry : unit.trained->entries())
        if (full.ends_with("." + entry.name)) longest = std::max(longest, entry.name.size());
    }
    ensure(longest > 0, "an optimizer's state is of parameters: " + full);
    slots.insert({full.substr(0, full.size() - longest - 1), kind});
  };
  for (const auto& [full, tensor] : mine.tensors) add(full, tensor.dim() == 0 ? SlotKind::scalar : SlotKind::tensor);
  for (const auto& [full, value] : mine.integers) add(full, SlotKind::integer);
  return slots;
}

/// Those of member 0, which always has pieces.
std::vector<StateSlot> agreed_slots(const Collected& mine, const std::vector<Unit>& units, Group& group) {
  std::string text;
  for (const StateSlot& slot : slots_of(mine, units))
    text += std::string(1, static_cast<char>(slot.kind)) + slot.name + "\n";
  at::Tensor size = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
  group.broadcast(size, /*root=*/0)->wait();
  text.resize(static_cast<std::size_t>(size.item<std::int64_t>()));
  const at::Tensor bytes = at::empty({size.item<std::int64_t>()}, at::kByte);
  std::copy(text.begin(), text.end(), static_cast<char*>(bytes.mutable_data_ptr()));
  if (!text.empty()) group.broadcast(bytes, /*root=*/0)->wait();
  text.assign(static_cast<const char*>(bytes.const_data_ptr()), text.size());
  std::vector<StateSlot> slots;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    slots.push_back({text.substr(begin + 1, end - begin - 1), static_cast<SlotKind>(text[begin])});
    begin = end + 1;
  }
  return slots;
}

void visit_tensors(State& state, const std::string& slot, const FlatParameters& parameters, const Collected& mine,
                   Group& group) {
  const at::Tensor part = at::zeros({parameters.shard_size()}, parameters.options());
  const std::vector<NamedTensor> pieces = parameters.pieces(part);
  for (const NamedTensor& piece : pieces)
    if (const auto found = mine.tensors.find(slot + "." + piece.name); found != mine.tensors.end())
      piece.tensor.copy_(found->second);
  const at::Tensor whole = at::empty({parameters.numel()}, parameters.options());
  group.all_gather(whole, part)->wait();
  for (const FlatParameters::Entry& entry : parameters.entries()) {
    at::Tensor view = parameters.view(whole, entry);
    state.tensor(slot + "." + entry.name, view);
  }
  part.copy_(whole.narrow(0, group.rank() * parameters.shard_size(), parameters.shard_size()));
  for (const NamedTensor& piece : pieces)
    if (const auto found = mine.tensors.find(slot + "." + piece.name); found != mine.tensors.end())
      at::Tensor(found->second).copy_(piece.tensor);
}

/// One number a parameter, the same on every rank that has a piece of it.
void visit_numbers(State& state, const StateSlot& slot, const FlatParameters& parameters, const Collected& mine,
                   Group& group) {
  const std::vector<FlatParameters::Entry>& entries = parameters.entries();
  const at::Tensor values =
      at::full({static_cast<std::int64_t>(entries.size())}, -std::numeric_limits<double>::infinity(), at::kDouble);
  auto* numbers = values.mutable_data_ptr<double>();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string name = slot.name + "." + entries[i].name;
    if (const auto found = mine.tensors.find(name); found != mine.tensors.end())
      numbers[i] = found->second.item<double>();
    else if (const auto integer = mine.integers.find(name); integer != mine.integers.end())
      numbers[i] = static_cast<double>(*integer->second);
  }
  group.all_reduce(values, Reduce::max)->wait();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string name = slot.name + "." + entries[i].name;
    if (slot.kind == SlotKind::integer) {
      auto value = static_cast<std::int64_t>(numbers[i]);
      state.integer(name, value);
      if (const auto integer = mine.integers.find(name); integer != mine.integers.end()) *integer->second = value;
      continue;
    }
    at::Tensor value = at::full({}, numbers[i], parameters.options().dtype(at::kFloat));
    state.tensor(name, value);
    if (const auto found = mine.tensors.find(name); found != mine.tensors.end()) at::Tensor(found->second).copy_(value);
  }
}

void visit_model(State& state, std::vector<Unit>& units, Model& model) {
  std::set<const c10::TensorImpl*> seen;
  for (Unit& unit : units) {
    unit.gather();
    for (FlatParameters* parameters : {unit.trained.get(), unit.frozen.get()}) {
      if (parameters == nullptr) continue;
      for (const FlatParameters::Entry& entry : parameters->entries()) {
        at::Tensor value = entry.tensor;
        state.tensor(entry.name, value);
        seen.insert(value.unsafeGetTensorImpl());
      }
      parameters->update_shard();
    }
    unit.release();
  }
  for (NamedTensor& named : named_parameters(model))
    if (!seen.contains(named.tensor.unsafeGetTensorImpl())) state.tensor(named.name, named.tensor);
  for (NamedTensor& named : named_buffers(model)) state.tensor(named.name, named.tensor);
}

}  // namespace

void visit_whole(State& state, Optimizer& optimizer, std::vector<Unit>& units, Group& group, Model& model) {
  const at::NoGradGuard no_grad;
  PrefixedState model_state(state, "model");
  visit_model(model_state, units, model);
  Collected mine;
  optimizer.visit_state(mine);
  PrefixedState optimizer_state(state, "optimizer");
  for (const StateSlot& slot : agreed_slots(mine, units, group))
    for (const Unit& unit : units) {
      if (!unit.trained) continue;
      if (slot.kind == SlotKind::tensor)
        visit_tensors(optimizer_state, slot.name, *unit.trained, mine, group);
      else
        visit_numbers(optimizer_state, slot, *unit.trained, mine, group);
    }
}

}  // namespace trainctl
