#include "chat_template/filters.h"

#include <map>

#include "chat_template/filter_tables.h"
#include "chat_template/operations.h"
#include "chat_template/python_text.h"
#include "core/text.h"

namespace trainctl::chat_template {
namespace {

using TestFunction = bool (*)(const Value& operand, const std::vector<Value>& arguments);

template <class Alternative>
bool is_alternative(const Value& value, const std::vector<Value>&) {
  return value.is<Alternative>();
}

bool is_iterable(const Value& value, const std::vector<Value>&) {
  return value.is_text() || value.as_sequence() != nullptr || value.as_mapping() != nullptr || value.is_undefined();
}

bool is_sequence(const Value& value, const std::vector<Value>&) {
  return has_places(value) || value.as_mapping() != nullptr || value.is_undefined();
}

template <LetterCase wanted>
bool has_case(const Value& value, const std::vector<Value>&) {
  return has_property(value.printed(), wanted == LetterCase::upper ? TextProperty::upper : TextProperty::lower);
}

bool is_divisible(const Value& value, const std::vector<Value>& arguments) {
  return equal(binary_operation("%", value, arguments[0]), std::int64_t{0});
}

/// A test, and the number of arguments that it takes.
struct KnownTest {
  TestFunction function;
  std::size_t num_arguments = 0;
};

template <std::int64_t remainder>
bool has_remainder(const Value& value, const std::vector<Value>&) {
  return equal(binary_operation("%", value, std::int64_t{2}), remainder);
}

template <bool wanted>
bool is_truth(const Value& value, const std::vector<Value>&) {
  return value.is<bool>() && value.truth() == wanted;
}

const std::map<std::string_view, KnownTest>& value_tests() {
  using Values = const std::vector<Value>&;
  static const std::map<std::string_view, KnownTest> table = {
      {"defined", {[](const Value& value, Values) { return !value.is_undefined(); }}},
      {"undefined", {[](const Value& value, Values) { return value.is_undefined(); }}},
      {"none", {is_alternative<None>}},
      {"boolean", {is_alternative<bool>}},
      {"true", {is_truth<true>}},
      {"false", {is_truth<false>}},
      {"integer", {is_alternative<std::int64_t>}},
      {"float", {is_alternative<double>}},
      {"number", {[](const Value& value, Values) { return value.as_number().has_value(); }}},
      {"string", {is_alternative<Text>}},
      {"mapping", {[](const Value& value, Values) { return value.as_mapping() != nullptr; }}},
      {"sequence", {is_sequence}},
      {"iterable", {is_iterable}},
      {"callable",
       {[](const Value& value, Values) { return value.as_object() != nullptr && value.as_object()->is_callable(); }}},
      {"odd", {has_remainder<1>}},
      {"even", {has_remainder<0>}},
      {"upper", {has_case<LetterCase::upper>}},
      {"lower", {has_case<LetterCase::lower>}},
      {"divisibleby", {is_divisible, 1}},
      {"sameas", {[](const Value& value, Values arguments) { return same(value, arguments[0]); }, 1}},
      {"in", {[](const Value& value, Values arguments) { return contains(arguments[0], value); }, 1}},
  };
  return table;
}

/// Tests that are comparisons: eq, equalto, ==, …
std::string_view comparison_of(std::string_view name) {
  static const std::map<std::string_view, std::string_view> table = {
      {"eq", "=="}, {"equalto", "=="},    {"==", "=="}, {"ne", "!="}, {"!=", "!="},
      {"lt", "<"},  {"lessthan", "<"},    {"<", "<"},   {"le", "<="}, {"<=", "<="},
      {"gt", ">"},  {"greaterthan", ">"}, {">", ">"},   {"ge", ">="}, {">=", ">="}};
  const auto found = table.find(name);
  return found == table.end() ? std::string_view() : found->second;
}

template <class Table>
[[noreturn]] void refuse_name(const std::string& what, const std::string& name, const Table& table) {
  std::vector<std::string> names;
  for (const auto& [known, function] : table) names.emplace_back(known);
  const std::string nearest = core::nearest_word(name, names);
  throw TemplateProblem("the " + what + " '" + name + "' is not supported" +
                        (nearest.empty() ? "" : "; the nearest one is '" + nearest + "'"));
}

}  // namespace

Value apply_filter(const std::string& name, const Value& operand, const Arguments& arguments) {
  for (const FilterTable* table : {&text_filters(), &sequence_filters()})
    if (const auto found = table->find(name); found != table->end()) return found->second(operand, arguments);
  FilterTable all = text_filters();
  all.insert(sequence_filters().begin(), sequence_filters().end());
  refuse_name("filter", name, all);
}

bool apply_test(const std::string& name, const Value& operand, const Arguments& arguments) {
  const std::string_view comparison = comparison_of(name);
  const auto found = value_tests().find(name);
  if (found == value_tests().end() && comparison.empty()) refuse_name("test", name, value_tests());
  const std::size_t expected = comparison.empty() ? found->second.num_arguments : 1;
  if (arguments.positional.size() != expected || !arguments.named.empty())
    throw TemplateProblem("the test '" + name + "' takes " + std::to_string(expected) + " arguments, got " +
                          std::to_string(arguments.positional.size() + arguments.named.size()));
  if (!comparison.empty()) return compare(comparison, operand, arguments.positional[0]);
  return found->second.function(operand, arguments.positional);
}

}  // namespace trainctl::chat_template
