// The width of a terminal, and text that fits it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainctl::core {

/// Returns the columns of the terminal that the descriptor leads to; nothing if it is no terminal or says no width.
std::optional<std::int64_t> terminal_columns(int descriptor);

/// Breaks lines that are longer than that at blanks, and indents what follows by four columns more than the line. A gap
/// of two blanks separates a name and its value from the next, so a line breaks there rather than at one blank. A
/// longer word, such as a path, stays whole.
std::string wrap_words(std::string_view text, std::int64_t columns);

}  // namespace trainctl::core
