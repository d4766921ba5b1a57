// Text for people: lists, numbers with units, the nearest known word, cells and markup.
#pragma once

#include <concepts>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::core {

/// "a, b and c".
std::string list_words(std::span<const std::string> words, std::string_view last = "and");

/// Lists the first words, and the number of the others: "a, b and 7 more".
std::string list_first_words(std::span<const std::string> words, std::size_t most);

/// Without the blanks around it.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t");

/// Whether the text is a number of one to nine digits, as a column is named where there is no header.
bool is_number(std::string_view text);

/// The candidate within a third of the word's length in edits (Damerau-Levenshtein), or "".
std::string nearest_word(std::string_view word, std::span<const std::string> candidates);

/// Shortest decimal text that reads back as the same double: "0.003", "1e-08".
std::string format_number(double value);

/// With so many decimals: "0.50".
std::string format_fixed(double value, int decimals);

/// So many significant digits at most: "1.24", "1.2e-07".
std::string format_digits(double value, int digits);

/// Formats a share of 1 in per cent: "12.5 %".
std::string format_percent(double share, int decimals);

/// "0.4312", "1.203e-07": four decimals, or four significant digits where those would say little.
std::string format_metric(double value);

/// "3.4 s", "12 min", "2.1 h".
std::string format_duration(double seconds);

/// "1,234,567".
std::string format_count(long long value);
template <std::unsigned_integral T>
std::string format_count(T value) {
  return format_count(static_cast<long long>(value));
}

/// "512 B", "1.5 MiB".
std::string format_bytes(double bytes);

/// Returns the cell; in quotes where RFC 4180 asks for them.
std::string csv_cell(const std::string& text);

/// Returns the text for an HTML page: what would be markup is written out.
std::string escape_html(std::string_view text);

}  // namespace trainctl::core
