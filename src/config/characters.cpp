#include "config/characters.h"

#include <algorithm>
#include <cstdio>

#include "core/utf8.h"

namespace trainctl::config {
namespace {

std::string hex_byte(unsigned char byte) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%02x", static_cast<unsigned>(byte));
  return text;
}

bool is_control(unsigned char byte) {
  return (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F;
}

/// The most bytes that are counted for a column: counting whole lines at every key would take quadratic time.
constexpr int kMaxCountedBytes = 4096;

}  // namespace

bool is_no_text(std::string_view character) {
  if (character.size() == 2) return character[0] == '\xC2' && static_cast<unsigned char>(character[1]) < 0xA0;
  return character == "\xE2\x80\xA8" || character == "\xE2\x80\xA9" || character == "\xEF\xBF\xBE" ||
         character == "\xEF\xBF\xBF";
}

CharacterColumns::CharacterColumns(std::string_view text) : text_(text) {
  if (std::none_of(text.begin(), text.end(), core::is_continuation)) return;
  line_starts_.push_back(0);
  for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1))
    line_starts_.push_back(at + 1);
}

int CharacterColumns::of(int line, int byte_column) const {
  const auto index = static_cast<std::size_t>(line);
  if (index >= line_starts_.size() || byte_column > kMaxCountedBytes) return byte_column;
  const std::string_view before = text_.substr(line_starts_[index]).substr(0, static_cast<std::size_t>(byte_column));
  return byte_column - static_cast<int>(std::count_if(before.begin(), before.end(), core::is_continuation));
}

std::optional<BadByte> find_bad_byte(std::string_view text) {
  int line = 1;
  int column = 1;
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const core::Utf8Sequence sequence = core::sequence_at_front(text.substr(at));
    if (!sequence.is_valid) return BadByte{at, line, column, "not UTF-8: byte " + hex_byte(byte)};
    if (is_control(byte)) return BadByte{at, line, column, "control character " + hex_byte(byte)};
    if (is_no_text(text.substr(at, sequence.length)))
      return BadByte{at, line, column, "a control character or line separator that YAML 1.1 and 1.2 read differently"};
    if (byte == '\r' && !text.substr(at + 1).starts_with('\n'))
      return BadByte{at, line, column, "a carriage return that no line feed follows"};
    at += sequence.length;
    ++column;
    if (byte == '\n') ++line, column = 1;
  }
  return std::nullopt;
}

}  // namespace trainctl::config
