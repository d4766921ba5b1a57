// What other folders must know of a kind of a OneOf: constants (`traits`) and facts of its values (`facts()`) in its
// config struct. A kind that leaves one out does not compile.
#pragma once

#include <concepts>
#include <type_traits>

#include "config/field.h"
#include "config/stated.h"

namespace trainctl::config {

template <class Kind, class Traits>
concept WithTraits = std::same_as<std::remove_cv_t<decltype(Kind::traits)>, Traits>;

template <class Kind, class Facts>
concept WithFacts = requires(const Kind& kind) {
  { kind.facts() } -> std::same_as<Facts>;
};

namespace detail {

template <class Traits, class... Kinds>
consteval bool all_have_traits(const OneOf<Kinds...>*) {
  static_assert((WithTraits<Kinds, Traits> && ...), "a kind has no `static constexpr … traits`");
  return true;
}

template <class Facts, class... Kinds>
consteval bool all_have_facts(const OneOf<Kinds...>*) {
  static_assert((WithFacts<Kinds, Facts> && ...), "a kind has no `facts() const`");
  return true;
}

}  // namespace detail

/// True if every kind of the OneOf has `traits` of this type; else the program does not compile.
template <class Kinds, class Traits>
inline constexpr bool kHaveTraits = detail::all_have_traits<Traits>(static_cast<const Kinds*>(nullptr));

/// True if every kind of the OneOf has `facts()` of this type; else the program does not compile.
template <class Kinds, class Facts>
inline constexpr bool kHaveFacts = detail::all_have_facts<Facts>(static_cast<const Kinds*>(nullptr));

/// Returns the traits of the kind that is set.
template <class... Kinds>
const auto& traits_of(const OneOf<Kinds...>& one) {
  return one.visit([](const auto& kind) -> const auto& {
    if constexpr (requires { kind.interface().traits; })
      return kind.interface().traits;
    else
      return std::remove_cvref_t<decltype(kind)>::traits;
  });
}

/// Returns what the kind that is set says of its values.
template <class... Kinds>
auto facts_of(const OneOf<Kinds...>& one) {
  return one.visit([](const auto& kind) { return kind.facts(); });
}

}  // namespace trainctl::config
