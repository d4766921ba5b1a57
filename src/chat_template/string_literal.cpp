#include "chat_template/string_literal.h"

#include <charconv>
#include <cstdint>

#include "chat_template/python_text.h"

namespace trainctl::chat_template {
namespace {

/// The characters of a one-letter escape, and what they stand for.
constexpr std::string_view kLetters = "\\'\"abfnrtv";
constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";

std::size_t num_hex_digits(char letter) {
  return letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
}

}  // namespace

std::string unescaped_literal(std::string_view literal, std::string& problem) {
  std::string out;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      out += literal[i];
      continue;
    }
    const char letter = literal[++i];
    const std::size_t known = kLetters.find(letter);
    if (letter == '\n') continue;
    if (known != std::string_view::npos) {
      out += kMeanings[known];
    } else if (const std::size_t digits = num_hex_digits(letter); digits > 0) {
      std::uint32_t code = 0;
      const std::string_view hex = literal.substr(i + 1, digits);
      const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
      if (error != std::errc() || hex.size() != digits || end != hex.data() + digits || code > 0x10FFFF)
        problem = "the escape \\" + std::string(1, letter) + " takes " + std::to_string(digits) + " hexadecimal digits";
      append_code_point(out, code);
      i += hex.size();
    } else if (letter >= '0' && letter <= '7') {
      std::uint32_t code = 0;
      std::size_t count = 0;
      while (count < 3 && i < literal.size() && literal[i] >= '0' && literal[i] <= '7') {
        code = code * 8 + static_cast<std::uint32_t>(literal[i++] - '0');
        ++count;
      }
      --i;
      append_code_point(out, code);
    } else if (letter == 'N') {
      problem = "the escape \\N is not supported; write the character itself";
    } else {
      out += {'\\', letter};
    }
  }
  return out;
}

}  // namespace trainctl::chat_template
