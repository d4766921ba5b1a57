// Python's operators, and what filters, tests and methods have in common.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "chat_template/value.h"

namespace trainctl::chat_template {

/// +, -, *, /, //, %, ** of two values. What Python refuses is a TemplateProblem.
Value binary_operation(std::string_view symbol, const Value& left, const Value& right);
Value negated(const Value& value);
/// ==, !=, <, <=, >, >=, in, not in.
bool compare(std::string_view symbol, const Value& left, const Value& right);
/// Whether left < right.
bool less(const Value& left, const Value& right);
bool contains(const Value& container, const Value& item);
/// Text with % and values, as Python's printf-like formatting has it.
std::string percent_formatted(const std::string& format, const std::vector<Value>& values);

/// The items of a list, the keys of a dict, the characters of a string; nothing of what is undefined.
std::vector<Value> items_of(const Value& value);
/// Python's len(); 0 for what is undefined.
std::size_t length_of(const Value& value);
/// Whether items can be indexed, as those of texts, lists, tuples and ranges.
bool has_places(const Value& value);
/// `object[key]`, or an undefined value.
Value item_of(const Value& object, const Value& key);
Value slice_of(const Value& object, const Value& begin, const Value& end, const Value& step);

/// Throws if a text or list would be larger than any template needs.
void check_size(std::size_t size);
/// Throws if the value is none that a dict could have as a key: a list or a dict.
void check_hashable(const Value& value);
Value checked_text(std::string text);

/// Arguments by the names of their parameters.
class Parameters {
 public:
  /// Too many arguments, and names that aren't parameters, are TemplateProblems that name the function.
  Parameters(const Arguments& arguments, std::string_view function, std::initializer_list<std::string_view> names);
  const Value* find(std::string_view name) const;
  Value get(std::string_view name, const Value& otherwise) const;
  const Value& required(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  /// Returns a count of characters, 0 for a negative one. A width that no text may have is refused.
  std::size_t width(std::string_view name, std::int64_t otherwise) const;
  bool truth(std::string_view name, bool otherwise) const;

 private:
  std::string function_;
  std::vector<std::pair<std::string_view, Value>> values_;
};

}  // namespace trainctl::chat_template
