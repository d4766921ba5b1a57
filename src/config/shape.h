// A config type as data: what fields() says, flattened once at run time into tables that reading, writing, schema and
// reference walk without templates. Values are reached through untyped pointers; only this header casts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "config/field.h"
#include "config/plugged.h"

namespace trainctl::config {

enum class Form { boolean, integer, number, text, word, list, optional, auto_or, structure, one_of };

struct Shape;

template <class T>
const Shape& shape_of();

/// The shape of an item, which is looked up when it is read: items of a list may have such a list inside.
class ElementShape {
 public:
  constexpr ElementShape(std::nullptr_t = nullptr) {}
  explicit constexpr ElementShape(const Shape& (*find)()) : find_(find) {}
  const Shape& operator*() const { return find_(); }
  const Shape* operator->() const { return &find_(); }
  explicit operator bool() const { return find_ != nullptr; }
  bool operator==(std::nullptr_t) const { return find_ == nullptr; }

 private:
  const Shape& (*find_)() = nullptr;
};

/// A member of a struct.
struct Key {
  std::string_view name;  // empty for a choice
  std::string_view help;
  Limits limits;
  const Shape* shape;
  std::size_t offset;  // in its owner

  void* in(void* owner) const { return static_cast<char*>(owner) + offset; }
  const void* in(const void* owner) const { return static_cast<const char*>(owner) + offset; }
};

/// Which members mean something depends on `form`. Lives as long as the program; only a plug-in's kinds are added
/// later.
struct Shape {
  Form form;
  std::shared_ptr<void> (*make)();         // a value with its defaults
  std::vector<std::string_view> words;     // word: the names; one_of: the kinds
  ElementShape element{};                  // list, optional, auto_or
  std::vector<Key> keys;                   // structure: all but its choice
  std::optional<Key> choice;               // structure
  std::size_t choice_position = 0;         // structure: how many keys stand before the choice
  std::string_view short_form;             // structure: the key that a bare word stands for; empty: that is `kind`
  std::vector<const Shape*> alternatives;  // one_of, in the order of `words`

  // word: its number. one_of: the alternative's. list: how many items. optional, auto_or: 0 or 1.
  std::size_t (*count)(const void* value) = nullptr;
  // The item, or what the optional or one_of holds.
  const void* (*get)(const void* value, std::size_t index) = nullptr;
  // word: sets it. one_of: switches to a default alternative. list: appends. optional, auto_or: fills with a default.
  void* (*set)(void* value, std::size_t index) = nullptr;
  void (*clear)(void* value) = nullptr;  // list, optional, auto_or

  const Key* find(std::string_view name) const {
    for (const Key& key : keys)
      if (key.name == name) return &key;
    return nullptr;
  }
  /// Returns the key of `{key: word}` for which a bare word may stand: `kind`, or what the struct names; empty: none.
  std::string_view word_key() const {
    if (!short_form.empty()) return short_form;
    return form == Form::one_of || (form == Form::structure && (choice || find("kind") != nullptr)) ? "kind" : "";
  }
  /// The one_of whose kinds stand in this mapping, or nullptr.
  const Shape* kinds() const { return form == Form::one_of ? this : choice ? choice->shape : nullptr; }
};

namespace detail {

template <class T>
struct Traits;  // of the forms that are templates
template <class T>
struct Traits<std::vector<T>> {
  static_assert(!std::same_as<T, bool>, "a list of booleans has no addressable items");
  static Shape describe() {
    using List = std::vector<T>;
    return {.form = Form::list,
            .make = nullptr,
            .words = {},
            .element = ElementShape(&shape_of<T>),
            .keys = {},
            .choice = {},
            .alternatives = {},
            .count = [](const void* v) { return static_cast<const List*>(v)->size(); },
            .get = [](const void* v, std::size_t i) -> const void* { return &(*static_cast<const List*>(v))[i]; },
            .set = [](void* v, std::size_t) -> void* { return &static_cast<List*>(v)->emplace_back(); },
            .clear = [](void* v) { static_cast<List*>(v)->clear(); }};
  }
};

/// std::optional and AutoOr, whose std::optional `Holder` reaches.
template <class Outer, class T, std::optional<T>& (*Holder)(Outer&)>
Shape describe_optional(Form form) {
  return {
      .form = form,
      .make = nullptr,
      .words = {},
      .element = ElementShape(&shape_of<T>),
      .keys = {},
      .choice = {},
      .alternatives = {},
      .count = [](const void* v) -> std::size_t { return Holder(*static_cast<Outer*>(const_cast<void*>(v))) ? 1 : 0; },
      .get = [](const void* v, std::size_t) -> const void* {
        return &*Holder(*static_cast<Outer*>(const_cast<void*>(v)));
      },
      .set = [](void* v, std::size_t) -> void* { return &Holder(*static_cast<Outer*>(v)).emplace(); },
      .clear = [](void* v) { Holder(*static_cast<Outer*>(v)).reset(); }};
}
template <class T>
std::optional<T>& held(std::optional<T>& value) {
  return value;
}
template <class T>
std::optional<T>& held_or_auto(AutoOr<T>& value) {
  return value.value;
}

template <class T>
struct Traits<std::optional<T>> {
  static Shape describe() { return describe_optional<std::optional<T>, T, &held<T>>(Form::optional); }
};
template <class T>
struct Traits<AutoOr<T>> {
  static Shape describe() { return describe_optional<AutoOr<T>, T, &held_or_auto<T>>(Form::auto_or); }
};

template <class... A>
struct Traits<OneOf<A...>> {
  using Self = OneOf<A...>;
  static constexpr std::size_t kNumPlugged = (std::size_t{ForPlugIns<A>} + ...);
  static_assert(kNumPlugged == 0 ||
                    (kNumPlugged == 1 && ForPlugIns<std::variant_alternative_t<sizeof...(A) - 1, std::variant<A...>>>),
                "one alternative, the last, stands for the kinds of plug-ins");
  static constexpr std::size_t kNumOwn = sizeof...(A) - kNumPlugged;

  static Shape describe() {
    Shape shape{.form = Form::one_of,
                .make = nullptr,
                .words = {},
                .element = nullptr,
                .keys = {},
                .choice = {},
                .alternatives = {},
                .count = [](const void* v) { return index_in(*static_cast<const Self*>(v)); },
                .get = [](const void* v, std::size_t) -> const void* {
                  return static_cast<const Self*>(v)->visit([](const auto& a) { return address_of(a); });
                },
                .set = [](void* v, std::size_t index) { return emplace(static_cast<Self*>(v)->value, index); }};
    (add_own<A>(shape), ...);
    return shape;
  }
  /// Lists the kinds of plug-ins in the shape, also those that are loaded later.
  static void follow_plug_ins(Shape& shape) {
    const auto follow = [&]<class One>(std::type_identity<One>) {
      if constexpr (ForPlugIns<One>)
        PluggedKinds<typename One::Interface>::all().follow([&shape](const auto& kind) {
          shape.words.push_back(kind.name);
          shape.alternatives.push_back(kind.shape);
        });
    };
    (follow(std::type_identity<A>()), ...);
  }

 private:
  template <class One>
  static void add_own(Shape& shape) {
    if constexpr (!ForPlugIns<One>) {
      shape.words.push_back(One::kind);
      shape.alternatives.push_back(&shape_of<One>());
    }
  }
  template <class One>
  static const void* address_of(const One& one) {
    if constexpr (ForPlugIns<One>)
      return one.config();
    else
      return &one;
  }
  static std::size_t index_in(const Self& self) {
    return self.visit([&]<class One>(const One& one) -> std::size_t {
      if constexpr (ForPlugIns<One>)
        return kNumOwn + PluggedKinds<typename One::Interface>::all().index_of(one.of());
      else
        return self.value.index();
    });
  }
  static void* emplace(std::variant<A...>& value, std::size_t index) {
    using Setter = void* (*)(std::variant<A...>&, std::size_t);
    static constexpr Setter setters[] = {&emplace_one<A>...};
    return setters[std::min(index, sizeof...(A) - 1)](value, index);
  }
  template <class One>
  static void* emplace_one(std::variant<A...>& value, std::size_t index) {
    if constexpr (ForPlugIns<One>) {
      const auto& kind = PluggedKinds<typename One::Interface>::all().at(index - kNumOwn);
      return const_cast<void*>(value.template emplace<One>(kind).config());
    } else {
      return &value.template emplace<One>();
    }
  }
};

template <Enumeration E>
Shape describe_word() {
  return {
      .form = Form::word,
      .make = nullptr,
      .words = names_of<E>(),
      .keys = {},
      .choice = {},
      .alternatives = {},
      .count = [](const void* v) { return static_cast<std::size_t>(*static_cast<const E*>(v)); },
      .get = nullptr,
      .set = [](void* v, std::size_t index) -> void* { return *static_cast<E*>(v) = static_cast<E>(index), nullptr; }};
}

template <class Owner, class T>
Key describe_key(const Owner& example, T Owner::*member, std::string_view name, std::string_view help,
                 const Limits& limits) {
  const auto offset = reinterpret_cast<const char*>(&(example.*member)) - reinterpret_cast<const char*>(&example);
  return {name, help, limits, &shape_of<T>(), static_cast<std::size_t>(offset)};
}

template <class Owner, class T>
void describe_member(Shape& shape, const Owner& example, const Field<Owner, T>& f) {
  shape.keys.push_back(describe_key(example, f.member, f.name, f.help, f.limits));
}
template <class Owner, class T>
void describe_member(Shape& shape, const Owner& example, const Choice<Owner, T>& c) {
  shape.choice = describe_key(example, c.member, "", c.help, c.limits);
  shape.choice_position = shape.keys.size();
}

template <Described T>
Shape describe_structure() {
  Shape shape{.form = Form::structure,
              .make = nullptr,
              .words = {},
              .keys = {},
              .choice = {},
              .short_form = {},
              .alternatives = {}};
  if constexpr (requires { T::short_form; }) shape.short_form = T::short_form;
  const T example{};
  fields_of<T>().apply([&](const auto&... member) { (describe_member(shape, example, member), ...); });
  return shape;
}

template <class T>
Shape describe() {
  if constexpr (Described<T>)
    return describe_structure<T>();
  else if constexpr (Enumeration<T>)
    return describe_word<T>();
  else if constexpr (requires { Traits<T>::describe(); })
    return Traits<T>::describe();
  else {
    constexpr bool known = std::same_as<T, bool> || std::same_as<T, std::int64_t> || std::same_as<T, double> ||
                           std::same_as<T, std::string>;
    static_assert(known, "a config member of a type that YAML can't say");
    constexpr Form form = std::same_as<T, bool>           ? Form::boolean
                          : std::same_as<T, std::int64_t> ? Form::integer
                          : std::same_as<T, double>       ? Form::number
                                                          : Form::text;
    return {.form = form, .make = nullptr, .words = {}, .keys = {}, .choice = {}, .alternatives = {}};
  }
}

}  // namespace detail

/// The one description of T, which is shared.
template <class T>
const Shape& shape_of() {
  static Shape shape = [] {
    Shape described = detail::describe<T>();
    described.make = []() -> std::shared_ptr<void> { return std::make_shared<T>(); };
    return described;
  }();
  if constexpr (requires { detail::Traits<T>::follow_plug_ins(shape); }) {
    static const bool follows = (detail::Traits<T>::follow_plug_ins(shape), true);
    static_cast<void>(follows);
  }
  return shape;
}

/// Returns the kind of a plug-in whose config struct is T.
template <Described T, class Interface>
PluggedKind<Interface> plugged_kind(Interface interface) {
  return {.name = T::kind,
          .shape = &shape_of<T>(),
          .make = []() -> std::shared_ptr<void> { return std::make_shared<T>(); },
          .copy = [](const void* config) -> std::shared_ptr<void> {
            return std::make_shared<T>(*static_cast<const T*>(config));
          },
          .interface = std::move(interface)};
}

}  // namespace trainctl::config
