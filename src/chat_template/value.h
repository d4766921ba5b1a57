// Values of the template language. They behave as Python's do, since templates are written for Jinja2.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trainctl::chat_template {

class Value;
class Object;

/// What a name or member is that is not there. Printed, it is empty; most other uses are errors with `what`.
struct Undefined {
  std::string what;
};
struct None {};

/// The type of a sequence. The last three are what the methods of a dict return: they have no places to index.
enum class SequenceKind { list, tuple, range, dict_keys, dict_values, dict_items };

/// Never changed once made, as in Jinja2's immutable sandbox.
struct Sequence {
  std::vector<Value> items;
  SequenceKind kind = SequenceKind::list;
  int depth = 1;  // of lists and dicts inside one another

  bool is_tuple() const { return kind == SequenceKind::tuple; }
  bool is_literal() const { return kind == SequenceKind::list || is_tuple(); }
  bool is_view() const { return kind >= SequenceKind::dict_keys; }
};

/// A dict in the order of insertion.
struct Mapping {
  std::vector<std::pair<Value, Value>> items;
  int depth = 1;
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value);
};

/// A string. The filter `safe` makes it markup: what is then added to it with + is escaped for HTML.
struct Text {
  std::shared_ptr<const std::string> text;
  bool is_markup = false;
};

/// Whether a type is one of a variant's.
template <class T, class Variant>
inline constexpr bool kIsAlternative = false;
template <class T, class... Alternatives>
inline constexpr bool kIsAlternative<T, std::variant<Alternatives...>> = (std::same_as<T, Alternatives> || ...);

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, std::int64_t, double, Text, std::shared_ptr<const Sequence>,
                            std::shared_ptr<const Mapping>, std::shared_ptr<Object>>;

  Value() : data_(None{}) {}
  template <class Alternative>
  requires kIsAlternative<Alternative, Data> Value(Alternative alternative)
      : data_(std::in_place_type<Alternative>, std::move(alternative)) {}

  static Value undefined(std::string what) { return Undefined{std::move(what)}; }
  static Value text(std::string text) { return Text{std::make_shared<const std::string>(std::move(text))}; }
  static Value markup(std::string text) { return Text{std::make_shared<const std::string>(std::move(text)), true}; }
  static Value number(std::size_t number) { return static_cast<std::int64_t>(number); }
  static Value list(std::vector<Value> items) { return sequence(SequenceKind::list, std::move(items)); }
  static Value tuple(std::vector<Value> items) { return sequence(SequenceKind::tuple, std::move(items)); }
  static Value sequence(SequenceKind kind, std::vector<Value> items);
  static Value mapping(Mapping mapping);
  static Value from_json(const nlohmann::ordered_json& json);

  template <class Alternative>
  bool is() const {
    return std::holds_alternative<Alternative>(data_);
  }
  template <class Alternative>
  const Alternative* get_if() const {
    return std::get_if<Alternative>(&data_);
  }
  bool is_text() const { return is<Text>(); }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_markup() const { return is_text() && get_if<Text>()->is_markup; }
  /// Null if the value is something else.
  const std::string* as_text() const;
  const Sequence* as_sequence() const;
  const Mapping* as_mapping() const;
  std::shared_ptr<Object> as_object() const;
  /// An integer, or a bool, which is one in Python.
  std::optional<std::int64_t> as_integer() const;
  /// Any number.
  std::optional<double> as_number() const;

  bool truth() const;
  /// What is printed: Python's str().
  std::string printed() const;
  /// Python's repr().
  std::string represented() const;
  /// Python's name of the type, for errors.
  std::string_view type_name() const;

 private:
  Data data_;
};

/// Returns how two numbers compare, an integer with a float by their exact values; nothing if one is no number.
std::optional<std::partial_ordering> numeric_order(const Value& left, const Value& right);
/// Python's ==.
bool equal(const Value& left, const Value& right);
/// Python's is.
bool same(const Value& left, const Value& right);

/// Positional and named arguments of a call, filter or test.
struct Arguments {
  std::vector<Value> positional{};
  std::vector<std::pair<std::string, Value>> named{};
  bool empty() const { return positional.empty() && named.empty(); }
};

/// A mistake of the template, or of the values that it is given. The interpreter adds the place.
class TemplateProblem : public std::exception {
 public:
  explicit TemplateProblem(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

/// A value with members, or one that can be called: a function, macro, namespace or loop.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  /// The member's value, if there is one.
  virtual std::optional<Value> member(std::string_view) const { return std::nullopt; }
  /// Sets a member; false if members can't be set.
  virtual bool set_member(const std::string&, Value) { return false; }
  virtual bool is_callable() const { return false; }
  virtual Value call(const Arguments& arguments);
};

/// Text of a floating-point number as Python writes it: "0.1", "1e-05", "3.0".
std::string python_float(double value);
/// Python's json.dumps.
struct JsonFormat {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent{};
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
std::string to_json(const Value& value, const JsonFormat& format);

}  // namespace trainctl::chat_template
