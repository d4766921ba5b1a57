// A State in memory: remembers what components show, and gives it back.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "runtime/state.h"

namespace trainctl::testing {

class MapState final : public runtime::State {
 public:
  enum class Direction { save, restore } direction = Direction::save;
  struct Part {
    at::Tensor values;
    runtime::PartOf place;
  };
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, Part> parts;
  std::map<std::string, std::int64_t> integers;
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> texts;

  void tensor(const std::string& name, at::Tensor& value) override {
    if (direction == Direction::save)
      tensors[name] = value.detach().clone();
    else
      value.detach().copy_(tensors.at(name));
  }
  void part(const std::string& name, at::Tensor& stretch, const runtime::PartOf& place) override {
    if (direction == Direction::save) {
      parts[name] = {stretch.detach().clone(), place};
      return;
    }
    const at::Tensor whole = stretch.detach().new_empty_strided(place.shape, place.strides);
    whole.copy_(tensors.at(name));
    place.runs.for_each_stretch(
        place.offset, place.offset + stretch.numel(), [&](std::int64_t i, std::int64_t first, std::int64_t count) {
          stretch.detach().narrow(0, i - place.offset, count).copy_(flat(whole).narrow(0, first, count));
        });
  }
  /// Puts another's parts into whole tensors of this one.
  void add_parts_of(const MapState& other) {
    for (const auto& [name, part] : other.parts) {
      const at::Tensor& whole =
          tensors.try_emplace(name, part.values.new_empty_strided(part.place.shape, part.place.strides)).first->second;
      part.place.runs.for_each_stretch(
          part.place.offset, part.place.offset + part.values.numel(),
          [&](std::int64_t i, std::int64_t first, std::int64_t count) {
            flat(whole).narrow(0, first, count).copy_(part.values.narrow(0, i - part.place.offset, count));
          });
    }
  }
  bool has(const std::string& name) override {
    const auto is_there = [&](const auto& named) {
      const auto found = named.lower_bound(name);
      const auto inside = named.lower_bound(name + ".");
      return (found != named.end() && found->first == name) ||
             (inside != named.end() && inside->first.starts_with(name + "."));
    };
    return direction == Direction::save || is_there(tensors) || is_there(integers) || is_there(numbers) ||
           is_there(texts);
  }
  void integer(const std::string& name, std::int64_t& value) override { exchange(integers, name, value); }
  void number(const std::string& name, double& value) override { exchange(numbers, name, value); }
  void text(const std::string& name, std::string& value) override { exchange(texts, name, value); }

  template <class Component>
  static MapState of(Component& component) {
    MapState state;
    component.visit_state(state);
    return state;
  }
  template <class Component>
  void restore_into(Component& component) {
    direction = Direction::restore;
    component.visit_state(*this);
  }
  /// Bit for bit.
  bool equals(const MapState& other) const {
    if (tensors.size() != other.tensors.size()) return false;
    for (const auto& [name, tensor] : tensors)
      if (!other.tensors.contains(name) || !tensor.equal(other.tensors.at(name))) return false;
    return integers == other.integers && numbers == other.numbers && texts == other.texts;
  }

 private:
  static at::Tensor flat(const at::Tensor& whole) { return whole.as_strided({whole.numel()}, {1}); }
  template <class T>
  void exchange(std::map<std::string, T>& values, const std::string& name, T& value) {
    if (direction == Direction::save)
      values[name] = value;
    else
      value = values.at(name);
  }
};

}  // namespace trainctl::testing
