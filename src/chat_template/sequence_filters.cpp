#include <algorithm>
#include <charconv>
#include <limits>

#include "chat_template/filter_tables.h"
#include "chat_template/filters.h"
#include "chat_template/members.h"
#include "chat_template/operations.h"
#include "chat_template/python_text.h"

namespace trainctl::chat_template {
namespace {

/// The arguments from the n-th positional one on.
Arguments without_first(const Arguments& arguments, std::size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(std::min(count, rest.positional.size())));
  return rest;
}

Value filter_length(const Value& operand) {
  return Value::number(length_of(operand));
}

Value filter_default(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, "default", {"default_value", "boolean"});
  const bool is_missing = operand.is_undefined() || (given.truth("boolean", false) && !operand.truth());
  return is_missing ? given.get("default_value", Value::text("")) : operand;
}

Value filter_list(const Value& operand) {
  return Value::list(items_of(operand));
}

Value filter_first(const Value& operand) {
  const std::vector<Value> items = items_of(operand);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value filter_last(const Value& operand) {
  const std::vector<Value> items = items_of(operand);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value filter_reverse(const Value& operand) {
  if (operand.is_text()) return slice_of(operand, None{}, None{}, std::int64_t{-1});
  std::vector<Value> items = items_of(operand);
  std::reverse(items.begin(), items.end());
  return Value::list(std::move(items));
}

Value filter_items(const Value& operand) {
  std::vector<Value> items;
  if (operand.is_undefined()) return Value::list({});
  const Mapping* const mapping = operand.as_mapping();
  if (mapping == nullptr) throw TemplateProblem("Can only get item pairs from a mapping.");
  for (const auto& [key, value] : mapping->items) items.push_back(Value::tuple({key, value}));
  return Value::list(std::move(items));
}

/// A value as sorting takes it: without regard to case, unless that is asked for.
Value sort_key(const Value& value, bool case_sensitive) {
  return value.is_text() && !case_sensitive ? Value::text(with_case(*value.as_text(), LetterCase::lower)) : value;
}

Value filter_sort(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, "sort", {"reverse", "case_sensitive", "attribute"});
  const Value attribute = given.get("attribute", None{});
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items_of(operand))
    keyed.emplace_back(
        sort_key(attribute.is<None>() ? item : attribute_of(item, attribute), given.truth("case_sensitive", false)),
        item);
  const bool reverse = given.truth("reverse", false);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(b.first, a.first) : less(a.first, b.first);
  });
  std::vector<Value> items;
  for (const auto& [key, item] : keyed) items.push_back(item);
  return Value::list(std::move(items));
}

Value filter_dictsort(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, "dictsort", {"case_sensitive", "by", "reverse"});
  const std::string by = given.get("by", Value::text("key")).printed();
  if (by != "key" && by != "value") throw TemplateProblem("You can only sort by either 'key' or 'value'");
  if (const auto* undefined = operand.get_if<Undefined>()) throw TemplateProblem(undefined->what);
  const Value pairs = filter_items(operand);
  return filter_sort(pairs, {.named = {{"attribute", std::int64_t{by == "key" ? 0 : 1}},
                                       {"case_sensitive", given.truth("case_sensitive", false)},
                                       {"reverse", given.truth("reverse", false)}}});
}

Value filter_unique(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, "unique", {"case_sensitive", "attribute"});
  const Value attribute = given.get("attribute", None{});
  std::vector<Value> keys;
  std::vector<Value> items;
  for (const Value& item : items_of(operand)) {
    const Value key =
        sort_key(attribute.is<None>() ? item : attribute_of(item, attribute), given.truth("case_sensitive", false));
    check_hashable(key);
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& known) { return equal(known, key); })) continue;
    keys.push_back(key);
    items.push_back(item);
  }
  return Value::list(std::move(items));
}

template <bool largest>
Value filter_extreme(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, largest ? "max" : "min", {"case_sensitive", "attribute"});
  const Value attribute = given.get("attribute", None{});
  std::optional<std::pair<Value, Value>> best;
  for (const Value& item : items_of(operand)) {
    Value key =
        sort_key(attribute.is<None>() ? item : attribute_of(item, attribute), given.truth("case_sensitive", false));
    if (!best || (largest ? less(best->first, key) : less(key, best->first))) best.emplace(std::move(key), item);
  }
  return best ? best->second : Value::undefined("No aggregated item, sequence was empty.");
}

Value filter_sum(const Value& operand, const Arguments& arguments) {
  const Parameters given(arguments, "sum", {"attribute", "start"});
  const Value attribute = given.get("attribute", None{});
  Value total = given.get("start", std::int64_t{0});
  if (total.is_text()) throw TemplateProblem("sum() can't sum strings; join them with |join");
  for (const Value& item : items_of(operand))
    total = binary_operation("+", total, attribute.is<None>() ? item : attribute_of(item, attribute));
  return total;
}

Value filter_map(const Value& operand, const Arguments& arguments) {
  std::vector<Value> items;
  if (!operand.truth()) return Value::list({});
  if (arguments.positional.empty()) {
    const Parameters given(arguments, "map", {"attribute", "default"});
    for (const Value& item : items_of(operand)) {
      Value member = attribute_of(item, given.required("attribute"));
      items.push_back(member.is_undefined() && given.find("default") != nullptr ? given.required("default") : member);
    }
  } else {
    const std::string name = arguments.positional[0].printed();
    for (const Value& item : items_of(operand)) items.push_back(apply_filter(name, item, without_first(arguments, 1)));
  }
  return Value::list(std::move(items));
}

/// select, reject: by a test of the item, or by its truth.
template <bool wanted>
Value filter_select(const Value& operand, const Arguments& arguments) {
  std::vector<Value> items;
  if (!operand.truth()) return Value::list({});
  for (const Value& item : items_of(operand)) {
    const bool holds = arguments.positional.empty()
                           ? item.truth()
                           : apply_test(arguments.positional[0].printed(), item, without_first(arguments, 1));
    if (holds == wanted) items.push_back(item);
  }
  return Value::list(std::move(items));
}

/// selectattr, rejectattr: by a test of the item's member, or by its truth.
template <bool wanted>
Value filter_select_attribute(const Value& operand, const Arguments& arguments) {
  if (!operand.truth()) return Value::list({});
  if (arguments.positional.empty()) throw TemplateProblem("Missing parameter for attribute name");
  std::vector<Value> items;
  for (const Value& item : items_of(operand)) {
    const Value member = attribute_of(item, arguments.positional[0]);
    const bool holds = arguments.positional.size() < 2
                           ? member.truth()
                           : apply_test(arguments.positional[1].printed(), member, without_first(arguments, 2));
    if (holds == wanted) items.push_back(item);
  }
  return Value::list(std::move(items));
}

}  // namespace

Value attribute_of(const Value& item, const Value& attribute) {
  if (attribute.as_integer()) return item_or_member(item, attribute);
  Value found = item;
  for (const std::string& part : split(attribute.printed(), {.separator = "."})) {
    const bool is_index =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    std::int64_t index = std::numeric_limits<std::int64_t>::max();  // of more digits: no item has it
    std::from_chars(part.data(), part.data() + part.size(), index);
    found = item_or_member(found, is_index ? Value(index) : Value::text(part));
  }
  return found;
}

const FilterTable& sequence_filters() {
  static const FilterTable table = {
      {"length", without_arguments<filter_length>},
      {"count", without_arguments<filter_length>},
      {"default", filter_default},
      {"d", filter_default},
      {"list", without_arguments<filter_list>},
      {"first", without_arguments<filter_first>},
      {"last", without_arguments<filter_last>},
      {"reverse", without_arguments<filter_reverse>},
      {"items", without_arguments<filter_items>},
      {"sort", filter_sort},
      {"dictsort", filter_dictsort},
      {"unique", filter_unique},
      {"min", filter_extreme<false>},
      {"max", filter_extreme<true>},
      {"sum", filter_sum},
      {"map", filter_map},
      {"select", filter_select<true>},
      {"reject", filter_select<false>},
      {"selectattr", filter_select_attribute<true>},
      {"rejectattr", filter_select_attribute<false>},
  };
  return table;
}

}  // namespace trainctl::chat_template
