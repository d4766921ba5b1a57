// Text for terminals: their width, and names of strangers that they must not obey.
#pragma once

#include <cstdint>
#include <cstdio>
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

/// Returns the text with control characters, but for tabs and line ends, as `\x1b`, and so with bytes that aren't
/// UTF-8. A terminal would obey them, and names of files, columns and classes are strangers'.
std::string without_controls(std::string_view text);

/// Prints a line for people like std::fprintf, without control characters. Data, such as JSON, are written as they are.
[[gnu::format(printf, 2, 3)]] void print(std::FILE* stream, const char* format, ...);

}  // namespace trainctl::core
