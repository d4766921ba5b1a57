// Kinds that plug-ins add to a OneOf, beside those that the program is built with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "config/field.h"

namespace trainctl::config {

struct Shape;

/// A kind of a plug-in: its config struct as data, and what the section's folder asks of such structs.
template <class Interface>
struct PluggedKind {
  std::string_view name;
  const Shape* shape;                                 // of its config struct
  std::shared_ptr<void> (*make)();                    // a struct with its defaults
  std::shared_ptr<void> (*copy)(const void* config);  // a struct with the same values
  Interface interface;
};

/// The kinds of all plug-ins for one Interface. There is one list in a process, because a shared library is loaded into
/// a process once, and never unloaded.
template <class Interface>
class PluggedKinds {
 public:
  using Listener = std::function<void(const PluggedKind<Interface>&)>;

  static PluggedKinds& all() {
    static PluggedKinds kinds;
    return kinds;
  }
  void add(const PluggedKind<Interface>& kind) {
    kinds_.push_back(kind);
    for (const Listener& listener : listeners_) listener(kinds_.back());
  }
  /// Calls `listener` with every kind that is there, and with each that is added later.
  void follow(Listener listener) {
    for (const PluggedKind<Interface>& kind : kinds_) listener(kind);
    listeners_.push_back(std::move(listener));
  }
  const std::deque<PluggedKind<Interface>>& kinds() const { return kinds_; }
  const PluggedKind<Interface>& at(std::size_t index) const { return kinds_.at(index); }
  std::size_t index_of(const PluggedKind<Interface>& kind) const {
    return static_cast<std::size_t>(
        std::find_if(kinds_.begin(), kinds_.end(), [&](const auto& one) { return &one == &kind; }) - kinds_.begin());
  }

 private:
  std::deque<PluggedKind<Interface>> kinds_;  // their addresses stay
  std::vector<Listener> listeners_;
};

/// An alternative of a OneOf: the config struct of a plug-in, of whichever kind.
template <class Interface_>
class Plugged {
 public:
  using Interface = Interface_;
  static constexpr std::string_view kind = "plug-in";

  explicit Plugged(const PluggedKind<Interface>& of) : of_(&of), config_(of.make()) {}
  Plugged(const Plugged& other) : of_(other.of_), config_(of_->copy(other.config_.get())) {}
  Plugged& operator=(const Plugged& other) {
    of_ = other.of_;
    config_ = of_->copy(other.config_.get());
    return *this;
  }
  ~Plugged() = default;

  std::string_view plugged_name() const { return of_->name; }
  const PluggedKind<Interface>& of() const { return *of_; }
  const Interface& interface() const { return of_->interface; }
  const void* config() const { return config_.get(); }

 protected:
  void replace(std::shared_ptr<void> config) { config_ = std::move(config); }

 private:
  const PluggedKind<Interface>* of_;
  std::shared_ptr<void> config_;
};

/// Returns the struct behind the pointer that the functions of an interface are given.
template <class Config>
const Config& plugged_config(const void* config) {
  return *static_cast<const Config*>(config);
}

/// An alternative that stands for kinds of plug-ins.
template <class Alternative>
concept ForPlugIns = requires {
  typename Alternative::Interface;
  &Alternative::plugged_name;
};

/// The OneOf with one alternative more, the last.
template <class Kinds, class More>
struct WithKind;
template <class... Kinds, class More>
struct WithKind<OneOf<Kinds...>, More> {
  using type = OneOf<Kinds..., More>;
};

}  // namespace trainctl::config
