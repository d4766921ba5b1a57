#include "chat_template/operations.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "chat_template/python_text.h"

namespace trainctl::chat_template {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

[[noreturn]] void refuse(std::string_view symbol, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right})
    if (const auto* undefined = value->get_if<Undefined>()) throw TemplateProblem(undefined->what);
  throw TemplateProblem("unsupported operand types for " + std::string(symbol) + ": '" + std::string(left.type_name()) +
                        "' and '" + std::string(right.type_name()) + "'");
}

std::int64_t floor_divide(std::int64_t left, std::int64_t right) {
  const std::int64_t quotient = left / right;
  return quotient * right != left && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Value integer_operation(std::string_view symbol, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  bool overflows = false;
  if (symbol == "+") {
    overflows = __builtin_add_overflow(left, right, &result);
  } else if (symbol == "-") {
    overflows = __builtin_sub_overflow(left, right, &result);
  } else if (symbol == "*") {
    overflows = __builtin_mul_overflow(left, right, &result);
  } else if (symbol == "**") {
    if (right < 0 && left == 0) throw TemplateProblem("0.0 cannot be raised to a negative power");
    if (right < 0) return std::pow(static_cast<double>(left), static_cast<double>(right));
    result = 1;
    if (left == -1) right %= 2;
    for (std::int64_t i = 0; i < right && !overflows && left != 1 && left != 0; ++i)
      overflows = __builtin_mul_overflow(result, left, &result);
    if (left == 0 && right > 0) result = 0;
  } else {
    if (right == 0) throw TemplateProblem("division by zero");
    if (symbol == "/") return static_cast<double>(left) / static_cast<double>(right);
    if (right == -1 && symbol == "%") return std::int64_t{0};
    overflows = right == -1 && left == INT64_MIN;
    if (!overflows) result = symbol == "//" ? floor_divide(left, right) : left - floor_divide(left, right) * right;
  }
  if (overflows) throw TemplateProblem("the integer result of " + std::string(symbol) + " is too large");
  return result;
}

Value float_operation(std::string_view symbol, double left, double right) {
  if (symbol == "+") return left + right;
  if (symbol == "-") return left - right;
  if (symbol == "*") return left * right;
  if (symbol == "**") {
    if (left == 0 && right < 0) throw TemplateProblem("0.0 cannot be raised to a negative power");
    const double power = std::pow(left, right);
    const bool is_of_finite = std::isfinite(left) && std::isfinite(right);
    if (is_of_finite && !std::isfinite(power)) throw TemplateProblem("the result of ** is too large, or complex");
    return power;
  }
  if (right == 0) throw TemplateProblem("division by zero");
  if (symbol == "/") return left / right;
  double rest = std::fmod(left, right);
  double quotient = (left - rest) / right;
  if (rest == 0) {
    rest = std::copysign(0.0, right);
  } else if ((rest < 0) != (right < 0)) {
    rest += right;
    quotient -= 1;
  }
  if (symbol != "//") return rest;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value repeated(const Value& value, std::int64_t count) {
  const auto times = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  if (const std::string* text = value.as_text()) {
    check_size(text->empty() ? 0 : std::min(times, kMostBytes + 1) * text->size());
    std::string out;
    for (std::size_t i = 0; i < times && !text->empty(); ++i) out += *text;
    return Value::text(std::move(out));
  }
  const Sequence& sequence = *value.as_sequence();
  check_size(sequence.items.empty() ? 0 : std::min(times, kMostBytes + 1) * sequence.items.size() * sizeof(Value));
  std::vector<Value> items;
  for (std::size_t i = 0; i < times && !sequence.items.empty(); ++i)
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  return Value::sequence(sequence.kind, std::move(items));
}

std::string escaped_for_html(const std::string& text) {
  std::string out;
  for (const char byte : text) {
    const std::size_t special = std::string_view("&<>'\"").find(byte);
    constexpr std::array<std::string_view, 5> kEntities = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    out += special == std::string_view::npos ? std::string_view(&byte, 1) : kEntities.at(special);
  }
  return out;
}

Value added_texts(const Value& left, const Value& right) {
  const bool is_markup = left.is_markup() || right.is_markup();
  const auto part = [&](const Value& one) {
    return is_markup && !one.is_markup() ? escaped_for_html(*one.as_text()) : *one.as_text();
  };
  std::string text = part(left) + part(right);
  check_size(text.size());
  return is_markup ? Value::markup(std::move(text)) : Value::text(std::move(text));
}

bool is_repeatable(const Value& value) {
  return value.is_text() || (value.as_sequence() != nullptr && value.as_sequence()->is_literal());
}

std::optional<std::int64_t> bound(const Value& value) {
  if (value.is<None>()) return std::nullopt;
  if (const auto integer = value.as_integer()) return integer;
  throw TemplateProblem("slice bounds must be integers, got '" + std::string(value.type_name()) + "'");
}

}  // namespace

void check_size(std::size_t size) {
  if (size > kMostBytes)
    throw TemplateProblem("a value of the template takes more than " + std::to_string(kMostBytes >> 20) + " MiB");
}

void check_hashable(const Value& value) {
  const Sequence* const sequence = value.as_sequence();
  if (value.as_mapping() != nullptr ||
      (sequence != nullptr && !sequence->is_tuple() && sequence->kind != SequenceKind::range))
    throw TemplateProblem("unhashable type: '" + std::string(value.type_name()) + "'");
}

Value checked_text(std::string text) {
  check_size(text.size());
  return Value::text(std::move(text));
}

Value binary_operation(std::string_view symbol, const Value& left, const Value& right) {
  if (symbol == "%" && left.is_text()) {
    const Sequence* const values = right.as_sequence();
    return checked_text(percent_formatted(
        *left.as_text(), values != nullptr && values->is_tuple() ? values->items : std::vector<Value>{right}));
  }
  const auto first_integer = left.as_integer();
  const auto second_integer = right.as_integer();
  if (first_integer && second_integer) return integer_operation(symbol, *first_integer, *second_integer);
  const auto first = left.as_number();
  const auto second = right.as_number();
  if (first && second) return float_operation(symbol, *first, *second);
  if (symbol == "+") {
    if (left.is_text() && right.is_text()) return added_texts(left, right);
    const Sequence* const before = left.as_sequence();
    const Sequence* const after = right.as_sequence();
    if (before != nullptr && after != nullptr && before->kind == after->kind && before->is_literal()) {
      check_size((before->items.size() + after->items.size()) * sizeof(Value));
      std::vector<Value> items = before->items;
      items.insert(items.end(), after->items.begin(), after->items.end());
      return Value::sequence(before->kind, std::move(items));
    }
  }
  if (symbol == "*" && is_repeatable(left) && second_integer) return repeated(left, *second_integer);
  if (symbol == "*" && is_repeatable(right) && first_integer) return repeated(right, *first_integer);
  refuse(symbol, left, right);
}

Value negated(const Value& value) {
  if (const auto integer = value.as_integer()) return integer_operation("-", 0, *integer);
  if (const auto number = value.as_number()) return -*number;
  refuse("-", value, value);
}

bool less(const Value& left, const Value& right) {
  if (const auto order = numeric_order(left, right)) return *order == std::partial_ordering::less;
  if (left.is_text() && right.is_text()) return *left.as_text() < *right.as_text();
  const Sequence* const first = left.as_sequence();
  const Sequence* const second = right.as_sequence();
  if (first == nullptr || second == nullptr || first->kind != second->kind || !first->is_literal())
    refuse("<", left, right);
  for (std::size_t i = 0; i < std::min(first->items.size(), second->items.size()); ++i)
    if (!equal(first->items[i], second->items[i])) return less(first->items[i], second->items[i]);
  return first->items.size() < second->items.size();
}

bool contains(const Value& container, const Value& item) {
  if (const std::string* text = container.as_text()) {
    if (!item.is_text())
      throw TemplateProblem("'in <string>' requires string as left operand, not " + std::string(item.type_name()));
    return text->find(*item.as_text()) != std::string::npos;
  }
  if (const Mapping* mapping = container.as_mapping()) {
    check_hashable(item);
    return mapping->find(item) != nullptr;
  }
  if (!container.is_undefined() && container.as_sequence() == nullptr)
    throw TemplateProblem("argument of type '" + std::string(container.type_name()) + "' is not iterable");
  const std::vector<Value> items = items_of(container);
  return std::any_of(items.begin(), items.end(), [&](const Value& one) { return equal(one, item); });
}

bool compare(std::string_view symbol, const Value& left, const Value& right) {
  if (symbol == "==") return equal(left, right);
  if (symbol == "!=") return !equal(left, right);
  if (symbol == "in") return contains(right, left);
  if (symbol == "not in") return !contains(right, left);
  if (symbol == "<") return less(left, right);
  if (symbol == ">") return less(right, left);
  if (const auto order = numeric_order(left, right))
    return symbol == "<=" ? std::is_lteq(*order) : std::is_gteq(*order);
  return symbol == "<=" ? !less(right, left) : !less(left, right);
}

std::vector<Value> items_of(const Value& value) {
  std::vector<Value> items;
  if (const Sequence* sequence = value.as_sequence()) return sequence->items;
  if (const Mapping* mapping = value.as_mapping())
    for (const auto& [key, item] : mapping->items) items.push_back(key);
  else if (const std::string* text = value.as_text())
    for (const char32_t code : code_points(*text)) items.push_back(Value::text(utf8(std::u32string(1, code))));
  else if (!value.is_undefined())
    throw TemplateProblem("'" + std::string(value.type_name()) + "' object is not iterable");
  return items;
}

std::size_t length_of(const Value& value) {
  if (const std::string* text = value.as_text()) return count_code_points(*text);
  if (const Sequence* sequence = value.as_sequence()) return sequence->items.size();
  if (const Mapping* mapping = value.as_mapping()) return mapping->items.size();
  if (value.is_undefined()) return 0;
  throw TemplateProblem("object of type '" + std::string(value.type_name()) + "' has no len()");
}

bool has_places(const Value& value) {
  const Sequence* const sequence = value.as_sequence();
  return value.is_text() || (sequence != nullptr && !sequence->is_view());
}

Value item_of(const Value& object, const Value& key) {
  if (const auto* undefined = object.get_if<Undefined>()) throw TemplateProblem(undefined->what);
  if (const Mapping* mapping = object.as_mapping()) {
    if (const Value* found = mapping->find(key)) return *found;
  } else if (const auto index = key.as_integer(); index && has_places(object)) {
    const auto size = static_cast<std::int64_t>(length_of(object));
    const std::int64_t place = *index < 0 ? *index + size : *index;
    if (place >= 0 && place < size) return items_of(object)[static_cast<std::size_t>(place)];
  }
  return Value::undefined("'" + std::string(object.type_name()) + " object' has no element " + key.represented());
}

Value slice_of(const Value& object, const Value& begin, const Value& end, const Value& step) {
  if (const auto* undefined = object.get_if<Undefined>()) throw TemplateProblem(undefined->what);
  const SliceBounds bounds{.begin = bound(begin), .end = bound(end), .step = bound(step).value_or(1)};
  if (bounds.step == 0) throw TemplateProblem("slice step cannot be zero");
  if (const std::string* text = object.as_text()) {
    const std::u32string codes = code_points(*text);
    std::string out;
    for (const std::size_t index : slice_indices(bounds, codes.size())) append_code_point(out, codes[index]);
    return Value::text(std::move(out));
  }
  const Sequence* const sequence = object.as_sequence();
  if (sequence == nullptr || sequence->is_view())
    throw TemplateProblem("'" + std::string(object.type_name()) + "' object can't be sliced");
  std::vector<Value> items;
  for (const std::size_t index : slice_indices(bounds, sequence->items.size())) items.push_back(sequence->items[index]);
  return Value::sequence(sequence->kind, std::move(items));
}

Parameters::Parameters(const Arguments& arguments, std::string_view function,
                       std::initializer_list<std::string_view> names)
    : function_(function) {
  if (arguments.positional.size() > names.size())
    throw TemplateProblem(function_ + " takes at most " + std::to_string(names.size()) + " arguments, got " +
                          std::to_string(arguments.positional.size()));
  for (std::size_t i = 0; i < arguments.positional.size(); ++i)
    values_.emplace_back(names.begin()[i], arguments.positional[i]);
  for (const auto& [name, value] : arguments.named) {
    const auto* const known = std::find(names.begin(), names.end(), name);
    if (known == names.end()) throw TemplateProblem(function_ + " has no argument '" + name + "'");
    if (find(name) != nullptr) throw TemplateProblem(function_ + " got the argument '" + name + "' twice");
    values_.emplace_back(*known, value);
  }
}

const Value* Parameters::find(std::string_view name) const {
  const auto found = std::find_if(values_.begin(), values_.end(), [&](const auto& one) { return one.first == name; });
  return found == values_.end() ? nullptr : &found->second;
}
Value Parameters::get(std::string_view name, const Value& otherwise) const {
  const Value* const found = find(name);
  return found != nullptr ? *found : otherwise;
}
const Value& Parameters::required(std::string_view name) const {
  const Value* const found = find(name);
  if (found == nullptr) throw TemplateProblem(function_ + " lacks its argument '" + std::string(name) + "'");
  return *found;
}
std::string Parameters::text(std::string_view name) const {
  const Value& value = required(name);
  if (const std::string* text = value.as_text()) return *text;
  throw TemplateProblem(function_ + ": '" + std::string(name) + "' must be str, not " + std::string(value.type_name()));
}
std::int64_t Parameters::integer(std::string_view name, std::int64_t otherwise) const {
  const Value* const found = find(name);
  if (found == nullptr || found->is<None>()) return otherwise;
  if (const auto integer = found->as_integer()) return *integer;
  throw TemplateProblem(function_ + ": '" + std::string(name) + "' must be int, not " +
                        std::string(found->type_name()));
}
std::size_t Parameters::width(std::string_view name, std::int64_t otherwise) const {
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(integer(name, otherwise), 0));
  check_size(width);
  return width;
}
bool Parameters::truth(std::string_view name, bool otherwise) const {
  const Value* const found = find(name);
  return found == nullptr ? otherwise : found->truth();
}

}  // namespace trainctl::chat_template
