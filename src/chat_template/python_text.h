// What Python's str does with code points, on UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::chat_template {

/// Bytes that are no UTF-8 become U+FFFD.
std::u32string code_points(std::string_view text);
void append_code_point(std::string& text, char32_t code);
std::string utf8(std::u32string_view codes);
std::size_t count_code_points(std::string_view text);

/// Whether the character is a space for Python's str.isspace.
bool is_python_space(char32_t code);
/// Without the spaces at the ends that are chosen, or without the characters in `chars`.
enum class StripSide { both, left, right };
std::string strip(std::string_view text, StripSide side, std::optional<std::string_view> chars = std::nullopt);

enum class LetterCase { upper, lower, title, capitalized, swapped };
std::string with_case(std::string_view text, LetterCase wanted);

/// Python's repr of a str.
std::string represented_text(std::string_view text);

/// Python's str.split and rsplit. Without a separator, runs of spaces separate words.
struct SplitOptions {
  std::optional<std::string> separator{};
  std::int64_t most = -1;
  bool from_right = false;
};
std::vector<std::string> split(std::string_view text, const SplitOptions& options);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends);

/// Python's str.replace; `most` below 0: all.
std::string replaced(std::string_view text, std::string_view old_part, std::string_view new_part, std::int64_t most);

/// Python's s[begin:end:step] of `size` items, as indices.
struct SliceBounds {
  std::optional<std::int64_t> begin{};
  std::optional<std::int64_t> end{};
  std::int64_t step = 1;
};
std::vector<std::size_t> slice_indices(const SliceBounds& bounds, std::size_t size);

/// Returns a number's text as Python's int() and float() take it: without blanks around, each decimal digit in ASCII,
/// and without the underscores between digits. Nothing if an underscore stands elsewhere.
std::optional<std::string> number_text(std::string_view text, std::int64_t base);

/// Properties of all characters: Python's isdigit and its relatives. An empty text has none.
enum class TextProperty { digit, alpha, alnum, space, upper, lower, decimal, title };
bool has_property(std::string_view text, TextProperty property);

}  // namespace trainctl::chat_template
