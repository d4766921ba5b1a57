// The tables of filters, by what they work on.
#pragma once

#include <map>
#include <string_view>

#include "chat_template/operations.h"
#include "chat_template/value.h"

namespace trainctl::chat_template {

using FilterFunction = Value (*)(const Value& operand, const Arguments& arguments);
using FilterTable = std::map<std::string_view, FilterFunction>;

/// A filter that takes no arguments.
template <Value (*function)(const Value& operand)>
Value without_arguments(const Value& operand, const Arguments& arguments) {
  const Parameters none(arguments, "the filter", {});
  return function(operand);
}

const FilterTable& text_filters();
const FilterTable& sequence_filters();

/// The member of an item that `attribute: "a.b.0"` names.
Value attribute_of(const Value& item, const Value& attribute);

}  // namespace trainctl::chat_template
