// Python's str.split, rsplit and splitlines.
#include <algorithm>

#include "chat_template/python_text.h"

namespace trainctl::chat_template {
namespace {

std::vector<std::string> split_at(std::string_view text, const std::string& separator, std::int64_t most,
                                  bool from_right) {
  std::vector<std::string> parts;
  while (most < 0 || static_cast<std::int64_t>(parts.size()) < most) {
    const std::size_t found = from_right ? text.rfind(separator) : text.find(separator);
    if (found == std::string_view::npos) break;
    const std::string_view after = text.substr(found + separator.size());
    parts.emplace_back(from_right ? after : text.substr(0, found));
    text = from_right ? text.substr(0, found) : after;
  }
  parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> split_words(std::u32string codes, std::int64_t most, bool from_right) {
  if (from_right) std::reverse(codes.begin(), codes.end());
  std::vector<std::string> parts;
  const auto add = [&](std::u32string part) {
    if (from_right) std::reverse(part.begin(), part.end());
    parts.push_back(utf8(part));
  };
  std::size_t begin = 0;
  while (true) {
    while (begin < codes.size() && is_python_space(codes[begin])) ++begin;
    if (begin == codes.size()) break;
    if (most >= 0 && static_cast<std::int64_t>(parts.size()) == most) {
      add(codes.substr(begin));
      break;
    }
    std::size_t end = begin;
    while (end < codes.size() && !is_python_space(codes[end])) ++end;
    add(codes.substr(begin, end - begin));
    begin = end;
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

bool ends_line(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

}  // namespace

std::vector<std::string> split(std::string_view text, const SplitOptions& options) {
  if (options.separator) return split_at(text, *options.separator, options.most, options.from_right);
  return split_words(code_points(text), options.most, options.from_right);
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  const std::u32string codes = code_points(text);
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < codes.size();) {
    std::size_t end = begin;
    while (end < codes.size() && !ends_line(codes[end])) ++end;
    std::size_t next = std::min(end + 1, codes.size());
    if (end + 1 < codes.size() && codes[end] == '\r' && codes[end + 1] == '\n') next = end + 2;
    lines.push_back(utf8(std::u32string_view(codes).substr(begin, (keep_ends ? next : end) - begin)));
    begin = next;
  }
  return lines;
}

}  // namespace trainctl::chat_template
