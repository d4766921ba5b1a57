// A component lists its state once, for saving and for loading: `void visit_state(State&)`.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace trainctl {

/// What a component's state is shown to. A saver reads the values, a loader replaces them.
class State {
 public:
  virtual ~State() = default;
  /// A loader copies into `value`, whose shape and dtype must already be right; a mismatch is an Error naming both.
  virtual void tensor(const std::string& name, at::Tensor& value) = 0;
  virtual void integer(const std::string& name, std::int64_t& value) = 0;
  virtual void number(const std::string& name, double& value) = 0;
  virtual void text(const std::string& name, std::string& value) = 0;
};

/// Looks at nothing: for ranks that take part in showing state which another one keeps.
class Unseen final : public State {
 public:
  void tensor(const std::string&, at::Tensor&) override {}
  void integer(const std::string&, std::int64_t&) override {}
  void number(const std::string&, double&) override {}
  void text(const std::string&, std::string&) override {}
};

/// Puts `prefix.` before every name.
class PrefixedState final : public State {
 public:
  PrefixedState(State& inner, std::string prefix) : inner_(inner), prefix_(std::move(prefix) + ".") {}
  void tensor(const std::string& name, at::Tensor& value) override { inner_.tensor(prefix_ + name, value); }
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

}  // namespace trainctl
