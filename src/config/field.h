// How a config struct describes itself, once: `fields()` names each member with its help text and limits; the key is
// the member's name, the default its initialiser. Reading, writing, schema, reference, overrides and diffs follow from
// it. A member missing from the list doesn't compile (static_assert in fields_of).
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace trainctl::config {

/// What a value must satisfy beyond its type. Number limits apply to each element of a list.
struct Limits {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool exclusive_min = false;
  bool exclusive_max = false;
  std::size_t min_items = 0;  // of a list, or characters of a text
  bool required = false;      // must be written in the file: there is no sensible default
  std::string_view unless{};  // of a required choice: a key beside `kind` that may take its place
  bool any_size = false;      // an integer without a maximum: no count, so that nothing is computed from it
};

/// The largest integer of a field without a maximum. No count that a machine could process comes near it, so products
/// of a few such counts don't overflow unnoticed.
inline constexpr std::int64_t kLargestCount = 1'000'000'000'000;

inline constexpr Limits positive{.min = 0, .exclusive_min = true};
inline constexpr Limits non_negative{.min = 0};
inline constexpr Limits fraction{.min = 0, .max = 1};                          // [0, 1]
inline constexpr Limits below_one{.min = 0, .max = 1, .exclusive_max = true};  // [0, 1)
inline constexpr Limits non_empty{.min_items = 1};
inline constexpr Limits required{.required = true};
/// Returns the limits of a choice whose `kind` is required unless this key is written.
constexpr Limits required_unless(std::string_view key) {
  return {.required = true, .unless = key};
}
inline constexpr Limits any_seed{.any_size = true};
constexpr Limits at_least(double min) {
  return {.min = min};
}
constexpr Limits between(double min, double max) {
  return {.min = min, .max = max};
}

/// Both limits hold: `positive & required`.
constexpr Limits operator&(const Limits& a, const Limits& b) {
  Limits both = a;
  if (b.min > a.min || (b.min == a.min && b.exclusive_min)) both.min = b.min, both.exclusive_min = b.exclusive_min;
  if (b.max < a.max || (b.max == a.max && b.exclusive_max)) both.max = b.max, both.exclusive_max = b.exclusive_max;
  both.min_items = a.min_items > b.min_items ? a.min_items : b.min_items;
  both.required = a.required || b.required;
  both.unless = b.unless.empty() ? a.unless : b.unless;
  both.any_size = a.any_size || b.any_size;
  return both;
}

/// One of several structs, told apart by `kind:`. As a field it is a mapping of its own; as a choice (below) its keys
/// stand among its owner's. Each alternative has `static constexpr std::string_view kind`. The first is the default.
template <class... Alternatives>
struct OneOf {
  std::variant<Alternatives...> value;

  OneOf() = default;
  template <class T>
  requires(std::same_as<std::remove_cvref_t<T>, Alternatives> || ...) OneOf(T&& alternative)
      : value(std::forward<T>(alternative)) {}

  std::string_view kind() const {
    return visit([](const auto& v) -> std::string_view {
      if constexpr (requires { v.plugged_name(); }) return v.plugged_name();
      return std::remove_cvref_t<decltype(v)>::kind;
    });
  }
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value);
  }
  /// Calls `visitor` with the alternative that is set. std::visit would do, and costs a compiler three times as
  /// much in every source that includes a section's config.
  template <class Visitor>
  decltype(auto) visit(Visitor&& visitor) const {
    using Result = std::invoke_result_t<Visitor&, const std::variant_alternative_t<0, Value>&>;
    using Call = Result (*)(Visitor&, const Value&);
    static constexpr Call calls[] = {&call<Result, Visitor, Alternatives>...};
    return calls[value.index()](visitor, value);
  }

 private:
  using Value = std::variant<Alternatives...>;

  template <class Result, class Visitor, class Alternative>
  static Result call(Visitor& visitor, const Value& value) {
    return visitor(*std::get_if<Alternative>(&value));
  }
};

/// A value, or the word `auto`: the program chooses.
template <class T>
struct AutoOr {
  std::optional<T> value;

  AutoOr() = default;
  AutoOr(T v) : value(std::move(v)) {}
  bool is_auto() const { return !value.has_value(); }
};

template <class Owner, class T>
struct Field {
  std::string_view name;
  T Owner::*member;
  std::string_view help;
  Limits limits;
};

/// A OneOf whose `kind` and keys stand directly in the owner's mapping.
template <class Owner, class T>
struct Choice {
  T Owner::*member;
  std::string_view help;
  Limits limits;
};

namespace detail {

template <std::size_t Index, class Member>
struct Listed {
  Member member;
};

template <class Indices, class... Members>
struct List;
template <std::size_t... Index, class... Members>
struct List<std::index_sequence<Index...>, Members...> : Listed<Index, Members>... {
  explicit constexpr List(Members... members) : Listed<Index, Members>{members}... {}

  /// Calls `function` with all members as arguments.
  template <class Function>
  constexpr decltype(auto) apply(Function&& function) const {
    return function(static_cast<const Listed<Index, Members>&>(*this).member...);
  }
};

}  // namespace detail

/// What `fields()` returns: `Fields{field<&C::a>("…"), field<&C::b>("…")}`. std::tuple would do; its constructors cost
/// a compiler as much as all else in a config header.
template <class... Members>
struct Fields : detail::List<std::index_sequence_for<Members...>, Members...> {
  static constexpr std::size_t size = sizeof...(Members);
  explicit constexpr Fields(Members... members)
      : detail::List<std::index_sequence_for<Members...>, Members...>(members...) {}
};

namespace detail {

template <auto Member>
constexpr std::string_view member_name() {
  // "... [with auto Member = &trainctl::optimizer::AdamWConfig::lr; ...]" (GCC), "... [Member =
  // &trainctl::config::AdamWConfig::lr]" (Clang)
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("Member = ") + 9);
  text = text.substr(0, text.find_first_of(";]"));
  while (!text.empty() && text.back() == ')') text.remove_suffix(1);
  return text.substr(text.rfind(':') + 1);
}

/// Converts to anything, so that an aggregate's members can be counted by trying initialisers.
struct Anything {
  template <class T>
  requires(!std::same_as<T, const char*> && !std::same_as<T, std::nullptr_t>) operator T() const noexcept;
};

template <class T, class... Init>
consteval std::size_t count_members() {
  if constexpr (requires { T{Init{}..., Anything{}}; })
    return count_members<T, Init..., Anything>();
  else
    return sizeof...(Init);
}

template <auto Enumerator>
constexpr std::string_view enumerator_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("Enumerator = ") + 13);
  text = text.substr(0, text.find_first_of(";]"));
  if (text.find('(') != std::string_view::npos) return "";  // a value without a name prints as a cast: "(Mode)7"
  text = text.substr(text.rfind(':') + 1);
  if (text.ends_with('_')) text.remove_suffix(1);  // `auto_`: YAML's word is a C++ keyword
  return text;
}

template <class Owner, class T>
T member_type(T Owner::*);
template <class Owner, class T>
Owner member_owner(T Owner::*);

}  // namespace detail

/// Describes one key: `field<&AdamWConfig::lr>("Peak learning rate.", positive)`.
template <auto Member>
constexpr auto field(std::string_view help, Limits limits = {}) {
  using Owner = decltype(detail::member_owner(Member));
  using T = decltype(detail::member_type(Member));
  return Field<Owner, T>{detail::member_name<Member>(), Member, help, limits};
}

/// Describes a OneOf member whose keys stand among the owner's: `choice<&OptimizerConfig::rule>("Update rule.")`.
template <auto Member>
constexpr auto choice(std::string_view help, Limits limits = {}) {
  using Owner = decltype(detail::member_owner(Member));
  using T = decltype(detail::member_type(Member));
  return Choice<Owner, T>{Member, help, limits};
}

/// A struct that lists its fields.
template <class T>
concept Described = requires {
  T::fields();
};

template <Described T>
constexpr auto fields_of() {
  constexpr auto list = T::fields();
  static_assert(decltype(list)::size == detail::count_members<T>(),
                "fields() must list every member of the config struct");
  return list;
}

template <class T>
concept Enumeration = std::is_enum_v<T>;

/// An enumerator as it is spelt in YAML.
template <Enumeration E>
std::string_view name_of(E value);

/// All names of an enum whose enumerators count up from 0 (at most 32 of them).
template <Enumeration E>
constexpr auto names_of() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    constexpr std::array all{detail::enumerator_name<static_cast<E>(I)>()...};  // at compile time
    std::vector<std::string_view> names;
    for (const std::string_view name : all)
      if (!name.empty()) names.push_back(name);
    return names;
  }
  (std::make_index_sequence<32>{});
}

template <Enumeration E>
std::string_view name_of(E value) {
  return names_of<E>().at(static_cast<std::size_t>(value));
}

/// Returns the enumerator of this name; none if there is no such one.
template <Enumeration E>
std::optional<E> enumerator_named(std::string_view name) {
  const std::vector<std::string_view> names = names_of<E>();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<E>(i);
  return std::nullopt;
}

}  // namespace trainctl::config
