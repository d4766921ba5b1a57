// A set of functions for std::visit: one for each alternative of a variant, which does not compile if one is missing.
#pragma once

namespace trainctl::core {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
// For Clang before 17, which doesn't deduce the arguments of aggregates.
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace trainctl::core
