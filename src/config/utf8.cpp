#include "config/utf8.h"

#include <algorithm>
#include <cstdio>

namespace trainctl::config {
namespace {

std::string hex_byte(unsigned char byte) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%02x", static_cast<unsigned>(byte));
  return text;
}

unsigned char byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

/// Bytes of the UTF-8 sequence that starts here; 0 if there is none (RFC 3629: shortest form, no surrogates).
std::size_t sequence_length(std::string_view text, std::size_t at) {
  const unsigned char lead = byte_at(text, at);
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xC2 && lead < 0xE0 ? 2
                             : lead >= 0xE0 && lead < 0xF0 ? 3
                             : lead >= 0xF0 && lead < 0xF5 ? 4
                                                           : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte_at(text, at + i) & 0xC0) != 0x80) return 0;
  if (length < 3) return length;
  const unsigned char second = byte_at(text, at + 1);
  const bool bad = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0) ||
                   (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90);
  return bad ? 0 : length;
}

bool is_control(unsigned char byte) {
  return (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F;
}

/// Counting from the line's start at every key would make a hostile line quadratic.
constexpr int kMaxCountedBytes = 4096;

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

}  // namespace

CharacterColumns::CharacterColumns(std::string_view text) : text_(text) {
  if (std::none_of(text.begin(), text.end(), is_continuation)) return;
  line_starts_.push_back(0);
  for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1))
    line_starts_.push_back(at + 1);
}

int CharacterColumns::of(int line, int byte_column) const {
  const auto index = static_cast<std::size_t>(line);
  if (index >= line_starts_.size() || byte_column > kMaxCountedBytes) return byte_column;
  const std::string_view before = text_.substr(line_starts_[index]).substr(0, static_cast<std::size_t>(byte_column));
  return byte_column - static_cast<int>(std::count_if(before.begin(), before.end(), is_continuation));
}

std::optional<BadByte> find_bad_byte(std::string_view text) {
  int line = 1;
  int column = 1;
  for (std::size_t at = 0; at < text.size();) {
    const unsigned char byte = byte_at(text, at);
    const std::size_t length = sequence_length(text, at);
    if (length == 0) return BadByte{at, line, column, "not UTF-8: byte " + hex_byte(byte)};
    if (is_control(byte)) return BadByte{at, line, column, "control character " + hex_byte(byte)};
    at += length;
    ++column;
    if (byte == '\n') ++line, column = 1;
  }
  return std::nullopt;
}

}  // namespace trainctl::config
