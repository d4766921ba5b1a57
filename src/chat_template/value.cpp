#include "chat_template/value.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "chat_template/python_text.h"

namespace trainctl::chat_template {
namespace {

constexpr std::string_view kSequenceNames[] = {"list", "tuple", "range", "dict_keys", "dict_values", "dict_items"};

std::string_view name_of(const Sequence& sequence) {
  return kSequenceNames[static_cast<std::size_t>(sequence.kind)];
}

bool equal_items(const Sequence& left, const Sequence& right) {
  if (left.is_view() && right.is_view())
    throw TemplateProblem("comparing '" + std::string(name_of(left)) + "' is not supported; make it a list with |list");
  return left.kind == right.kind &&
         std::equal(left.items.begin(), left.items.end(), right.items.begin(), right.items.end(), equal);
}

bool equal_mappings(const Mapping& left, const Mapping& right) {
  if (left.items.size() != right.items.size()) return false;
  return std::all_of(left.items.begin(), left.items.end(), [&](const auto& item) {
    const Value* const other = right.find(item.first);
    return other != nullptr && equal(item.second, *other);
  });
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string represented_sequence(const Sequence& sequence) {
  if (sequence.kind == SequenceKind::range)  // Python prints its bounds
    throw TemplateProblem("printing a range is not supported; make it a list with |list");
  std::vector<std::string> parts;
  for (const Value& item : sequence.items) parts.push_back(item.represented());
  if (sequence.is_tuple()) return "(" + joined(parts) + (parts.size() == 1 ? ",)" : ")");
  const std::string list = "[" + joined(parts) + "]";
  return sequence.is_view() ? std::string(name_of(sequence)) + "(" + list + ")" : list;
}

std::string represented_mapping(const Mapping& mapping) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : mapping.items) parts.push_back(key.represented() + ": " + value.represented());
  return "{" + joined(parts) + "}";
}

int depth_of(const Value& value) {
  if (const Sequence* sequence = value.as_sequence()) return sequence->depth;
  if (const Mapping* mapping = value.as_mapping()) return mapping->depth;
  return 0;
}

/// Returns the depth of a list or dict of these. Much of what is done with values recurses on it, and so does their
/// end.
int depth_around(std::span<const Value> items) {
  constexpr int kDeepestValue = 1'000;
  int depth = 1;
  for (const Value& item : items) depth = std::max(depth, 1 + depth_of(item));
  if (depth > kDeepestValue)
    throw TemplateProblem("lists are nested more than " + std::to_string(kDeepestValue) + " deep");
  return depth;
}

/// Compares by the exact values: a float of 64 bits has fewer digits than the integer.
std::partial_ordering exact_order(std::int64_t integer, double number) {
  if (std::isnan(number)) return std::partial_ordering::unordered;
  if (number >= 0x1p63) return std::partial_ordering::less;
  if (number < -0x1p63) return std::partial_ordering::greater;
  const auto whole = static_cast<std::int64_t>(number);
  return integer != whole ? std::partial_ordering(integer <=> whole) : std::trunc(number) <=> number;
}

}  // namespace

const Value* Mapping::find(const Value& key) const {
  const auto found = std::find_if(items.begin(), items.end(), [&](const auto& item) { return equal(item.first, key); });
  return found == items.end() ? nullptr : &found->second;
}

const Value* Mapping::find(std::string_view key) const {
  const auto found = std::find_if(items.begin(), items.end(), [&](const auto& item) {
    const std::string* const text = item.first.as_text();
    return text != nullptr && *text == key;
  });
  return found == items.end() ? nullptr : &found->second;
}

void Mapping::set(const Value& key, Value value) {
  for (auto& item : items)
    if (equal(item.first, key)) {
      item.second = std::move(value);
      return;
    }
  items.emplace_back(key, std::move(value));
}

Value Value::sequence(SequenceKind kind, std::vector<Value> items) {
  const int depth = depth_around(items);
  return std::make_shared<const Sequence>(Sequence{.items = std::move(items), .kind = kind, .depth = depth});
}
Value Value::mapping(Mapping mapping) {
  for (const auto& [key, value] : mapping.items) mapping.depth = std::max(mapping.depth, depth_around({&value, 1}));
  return std::make_shared<const Mapping>(std::move(mapping));
}

Value Value::from_json(const nlohmann::ordered_json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_float()) {
    const auto number = json.get<double>();
    // The value of an integer of more than 64 bits has lost digits.
    if (std::abs(number) >= 0x1p63) throw TemplateProblem("the number " + json.dump() + " has more than 64 bits");
    return number;
  }
  if (json.is_number_unsigned() &&
      json.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    throw TemplateProblem("the integer " + json.dump() + " is too large");
  if (json.is_number()) return json.get<std::int64_t>();
  if (json.is_string()) return text(json.get<std::string>());
  if (json.is_array()) {
    std::vector<Value> items;
    for (const auto& item : json) items.push_back(from_json(item));
    return list(std::move(items));
  }
  if (!json.is_object()) return None{};
  Mapping mapping;
  for (const auto& [key, item] : json.items()) mapping.items.emplace_back(text(key), from_json(item));
  return Value::mapping(std::move(mapping));
}

const std::string* Value::as_text() const {
  const auto* const text = get_if<Text>();
  return text == nullptr ? nullptr : text->text.get();
}
const Sequence* Value::as_sequence() const {
  const auto* const sequence = get_if<std::shared_ptr<const Sequence>>();
  return sequence == nullptr ? nullptr : sequence->get();
}
const Mapping* Value::as_mapping() const {
  const auto* const mapping = get_if<std::shared_ptr<const Mapping>>();
  return mapping == nullptr ? nullptr : mapping->get();
}
std::shared_ptr<Object> Value::as_object() const {
  const auto* const object = get_if<std::shared_ptr<Object>>();
  return object == nullptr ? nullptr : *object;
}
std::optional<std::int64_t> Value::as_integer() const {
  if (const auto* integer = get_if<std::int64_t>()) return *integer;
  if (const auto* truth = get_if<bool>()) return *truth ? 1 : 0;
  return std::nullopt;
}
std::optional<double> Value::as_number() const {
  if (const auto* number = get_if<double>()) return *number;
  if (const auto integer = as_integer()) return static_cast<double>(*integer);
  return std::nullopt;
}

bool Value::truth() const {
  if (is_undefined() || is<None>()) return false;
  if (const auto number = as_number()) return *number != 0;
  if (const auto* text = as_text()) return !text->empty();
  if (const auto* sequence = as_sequence()) return !sequence->items.empty();
  if (const auto* mapping = as_mapping()) return !mapping->items.empty();
  return true;
}

std::string Value::printed() const {
  if (is_undefined()) return "";
  if (const auto* text = as_text()) return *text;
  return represented();
}

std::string Value::represented() const {
  if (is_undefined()) return "Undefined";
  if (is<None>()) return "None";
  if (const auto* truth = get_if<bool>()) return *truth ? "True" : "False";
  if (const auto* integer = get_if<std::int64_t>()) return std::to_string(*integer);
  if (const auto* number = get_if<double>()) return python_float(*number);
  if (const auto* text = as_text()) return represented_text(*text);
  if (const auto* sequence = as_sequence()) return represented_sequence(*sequence);
  if (const auto* mapping = as_mapping()) return represented_mapping(*mapping);
  return "<" + std::string(as_object()->type_name()) + ">";
}

std::string_view Value::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is<None>()) return "NoneType";
  if (is<bool>()) return "bool";
  if (is<std::int64_t>()) return "int";
  if (is<double>()) return "float";
  if (is_text()) return "str";
  if (const auto* sequence = as_sequence()) return name_of(*sequence);
  if (as_mapping() != nullptr) return "dict";
  return as_object()->type_name();
}

std::optional<std::partial_ordering> numeric_order(const Value& left, const Value& right) {
  const auto first = left.as_integer(), second = right.as_integer();
  if (first && second) return *first <=> *second;
  if (const auto* number = right.get_if<double>(); first && number != nullptr) return exact_order(*first, *number);
  if (const auto* number = left.get_if<double>(); second && number != nullptr)
    return 0 <=> exact_order(*second, *number);
  const auto* const one = left.get_if<double>();
  const auto* const other = right.get_if<double>();
  return one == nullptr || other == nullptr ? std::nullopt : std::optional(*one <=> *other);
}

bool equal(const Value& left, const Value& right) {
  if (const auto order = numeric_order(left, right)) return *order == std::partial_ordering::equivalent;
  if (const auto* first = left.as_text(), *second = right.as_text(); first != nullptr && second != nullptr)
    return *first == *second;
  if (const auto* first = left.as_sequence(), *second = right.as_sequence(); first != nullptr && second != nullptr)
    return equal_items(*first, *second);
  if (const auto* first = left.as_mapping(), *second = right.as_mapping(); first != nullptr && second != nullptr)
    return equal_mappings(*first, *second);
  if (left.is<None>() || left.is_undefined()) return left.type_name() == right.type_name();
  return left.as_object() != nullptr && left.as_object() == right.as_object();
}

bool same(const Value& left, const Value& right) {
  if (left.type_name() != right.type_name()) return false;
  if (const auto* first = left.as_sequence()) return first == right.as_sequence();
  if (const auto* first = left.as_mapping()) return first == right.as_mapping();
  return equal(left, right);
}

Value Object::call(const Arguments&) {
  throw TemplateProblem("'" + std::string(type_name()) + "' object is not callable");
}

}  // namespace trainctl::chat_template
