// Escapes of string literals, as Python's unicode-escape reads them.
#pragma once

#include <string>
#include <string_view>

namespace trainctl::chat_template {

/// Returns the text that a literal between its quotes stands for. `problem` is set if an escape is wrong.
std::string unescaped_literal(std::string_view literal, std::string& problem);

}  // namespace trainctl::chat_template
