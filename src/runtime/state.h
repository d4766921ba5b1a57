// A component lists its state once, for saving and for loading: `void visit_state(State&)`.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/element_runs.h"

namespace trainctl::runtime {

/// The key of a tensor that an optimizer keeps for a parameter.
struct SlotKey {
  std::string slot;       // "exp_avg"
  std::string parameter;  // "layer.weight"
  /// What the slot takes the values of, once they are loaded, if it begins anew then; undefined: it keeps its values.
  at::Tensor first_values{};

  /// Returns the name in checkpoints: "exp_avg.layer.weight".
  std::string name() const { return slot + "." + parameter; }
};

/// Where a stretch belongs of a tensor that lies on several ranks. Elements are counted as the whole, which is dense,
/// has them in memory.
struct PartOf {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;        // of the stretch's first element, among `runs`
  std::int64_t copy = 0;          // this rank among those that save the same stretch; num_copies: it doesn't save it
  std::int64_t num_copies = 1;    // how many they are
  ElementRuns runs{};             // what this rank and others have stretches of, where layers are split
  std::optional<SlotKey> slot{};  // first_values are those of the stretch; none: the tensor is no slot
};

/// What a component's state is shown to. A saver reads the values, a loader replaces them: tensors at the latest when
/// the walk is over.
class State {
 public:
  virtual ~State() = default;
  /// Shows a tensor that is the same on all ranks. A loader copies into `value`, whose shape and dtype must already be
  /// right; a mismatch is an Error naming both.
  virtual void tensor(const std::string& name, at::Tensor& value) = 0;
  /// Shows a tensor of a parameter: one with the parameter's layout, or a scalar.
  virtual void slot(const SlotKey& key, at::Tensor& value) { tensor(key.name(), value); }
  /// This rank's stretch of a tensor, flat.
  virtual void part(const std::string& name, at::Tensor& stretch, const PartOf& whole) = 0;
  /// Returns whether there is a value of this name, or a component. A loader may lack what a run has got since.
  virtual bool has(const std::string& name) {
    (void)name;
    return true;
  }
  /// Hears of a component that it lacks, which begins anew.
  virtual void begins_anew(const std::string& name) { (void)name; }
  virtual void integer(const std::string& name, std::int64_t& value) = 0;
  virtual void number(const std::string& name, double& value) = 0;
  virtual void text(const std::string& name, std::string& value) = 0;
};

/// Puts `prefix.` before every name.
class PrefixedState final : public State {
 public:
  PrefixedState(State& inner, std::string prefix) : inner_(inner), prefix_(std::move(prefix) + ".") {}
  void tensor(const std::string& name, at::Tensor& value) override { inner_.tensor(prefix_ + name, value); }
  void slot(const SlotKey& key, at::Tensor& value) override {
    inner_.slot({.slot = prefix_ + key.slot, .parameter = key.parameter, .first_values = key.first_values}, value);
  }
  void part(const std::string& name, at::Tensor& stretch, const PartOf& whole) override {
    inner_.part(prefix_ + name, stretch, whole);
  }
  bool has(const std::string& name) override { return inner_.has(prefix_ + name); }
  void begins_anew(const std::string& name) override { inner_.begins_anew(prefix_ + name); }
  void integer(const std::string& name, std::int64_t& value) override { inner_.integer(prefix_ + name, value); }
  void number(const std::string& name, double& value) override { inner_.number(prefix_ + name, value); }
  void text(const std::string& name, std::string& value) override { inner_.text(prefix_ + name, value); }

 private:
  State& inner_;
  std::string prefix_;
};

/// Shows a component's state under a name of its own: `visit_as(state, "optimizer", *optimizer)`.
template <class Component>
void visit_as(State& state, const std::string& name, Component& component) {
  PrefixedState prefixed(state, name);
  component.visit_state(prefixed);
}

/// Shows what a component's numbers are of, such as "lowest loss". Returns whether the saved ones are of something
/// else.
inline bool watched_another(State& state, const std::string& watched) {
  std::string before = watched;
  if (state.has("watched")) state.text("watched", before);  // older checkpoints lack it
  return before != watched;
}

/// Shows a component that a run may have got since it was saved.
template <class Component>
void visit_optional(State& state, const std::string& name, std::optional<Component>& component) {
  if (!component) return;
  if (state.has(name))
    visit_as(state, name, *component);
  else
    state.begins_anew(name);
}

}  // namespace trainctl::runtime
