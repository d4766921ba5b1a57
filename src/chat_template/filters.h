// Filters and tests by name, as jinja2 and transformers define them.
#pragma once

#include <string>

#include "chat_template/value.h"

namespace trainctl::chat_template {

/// An unknown name is a TemplateProblem that names the nearest known one.
Value apply_filter(const std::string& name, const Value& operand, const Arguments& arguments);
bool apply_test(const std::string& name, const Value& operand, const Arguments& arguments);

}  // namespace trainctl::chat_template
