// UTF-8: checking, repairing, walking. What stands above `Utf8Sequence` takes text that is already valid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trainctl::core {

inline constexpr char32_t kReplacement = 0xFFFD;

inline bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// Length of the character that begins with this byte.
inline std::size_t char_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

struct Decoded {
  char32_t code;
  std::uint32_t length;
};

/// The character at `at`, which must be in the text and at a boundary.
inline Decoded decode_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {(first & 0xF) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(first & 7) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

/// The character that ends before `end`, which must not be 0.
inline Decoded decode_before(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && is_continuation(text[at])) --at;
  return decode_at(text, at);
}

void append_utf8(std::string& text, char32_t code);
std::u32string to_utf32(std::string_view text);
std::string to_utf8(std::u32string_view codes);
std::size_t count_chars(std::string_view text);
bool is_ascii(std::string_view text);

struct Utf8Sequence {
  std::size_t length;  // bytes of the character, or of what might have become one
  bool is_valid;
};
/// Returns the character at the front of `bytes`, which must not be empty (RFC 3629: shortest form, no surrogates).
Utf8Sequence sequence_at_front(std::string_view bytes);

/// Returns the length of the longest valid beginning.
std::size_t valid_prefix(std::string_view bytes);
inline bool valid_utf8(std::string_view bytes) {
  return valid_prefix(bytes) == bytes.size();
}
/// Writes U+FFFD for each maximal part of what might have become a character, as Python, Rust and WHATWG's standard do.
std::string replace_invalid(std::string_view bytes);

}  // namespace trainctl::core
