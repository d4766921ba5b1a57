// Facts that a struct must state, and rules that several keys break together.
#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::config {

/// A member without a default: a struct that leaves it out of its initializer does not compile.
template <class T>
struct Stated {
  T value;

  template <std::convertible_to<T> U>
  constexpr Stated(U&& stated) : value(std::forward<U>(stated)) {}
  constexpr operator const T&() const { return value; }
  constexpr const T& operator*() const { return value; }
};

/// A rule that several keys break together. The first path is where the problem is reported.
struct BrokenRule {
  std::vector<std::string> paths;
  std::string message;
};

}  // namespace trainctl::config
