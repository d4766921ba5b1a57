#include "core/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace trainctl::core {
namespace {

/// Returns the number of edits (insert, delete, replace, swap of neighbors) that turn a into b.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

std::string fixed(double value, int decimals, const char* unit) {
  return format_fixed(value, decimals) + " " + unit;
}

}  // namespace

std::string list_words(std::span<const std::string> words, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " " + std::string(last) + " " : ", ";
    text += words[i];
  }
  return text;
}

std::string list_first_words(std::span<const std::string> words, std::size_t most) {
  if (words.size() <= most) return list_words(words);
  std::vector<std::string> listed(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(most));
  listed.push_back(format_count(static_cast<long long>(words.size() - most)) + " more");
  return list_words(listed);
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string nearest_word(std::string_view word, std::span<const std::string> candidates) {
  if (word.size() > 64) return "";
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > 64) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

std::string format_number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

std::string format_fixed(double value, int decimals) {
  char text[400];  // the largest double has 309 digits before the decimal point
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string format_digits(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

std::string format_percent(double share, int decimals) {
  return format_fixed(100 * share, decimals) + " %";
}

std::string format_metric(double value) {
  const double size = std::abs(value);
  return value == 0 || (size >= 1e-3 && size < 1e4) ? format_fixed(value, 4) : format_digits(value, 4);
}

std::string format_duration(double seconds) {
  if (seconds < 1e-3) return fixed(seconds * 1e6, 0, "us");
  if (seconds < 1) return fixed(seconds * 1e3, 1, "ms");
  if (seconds < 120) return fixed(seconds, 1, "s");
  if (seconds < 7200) return fixed(seconds / 60, 1, "min");
  return fixed(seconds / 3600, 1, "h");
}

std::string format_count(long long value) {
  std::string digits = std::to_string(value < 0 ? -value : value);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return value < 0 ? "-" + digits : digits;
}

std::string format_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 1024 && unit + 1 < std::size(kUnits)) bytes /= 1024, ++unit;
  return fixed(bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) cell.append(c == '"' ? 2 : 1, c);
  return cell + '"';
}

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c;
  }
  return result;
}

}  // namespace trainctl::core
