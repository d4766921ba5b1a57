#include "core/utf8.h"

#include <algorithm>
#include <cstring>

namespace trainctl::core {
namespace {

/// Returns the number of ASCII bytes at the front; reads eight bytes at a time.
std::size_t ascii_prefix(std::string_view bytes) {
  std::size_t i = 0;
  for (std::uint64_t word = 0; i + sizeof word <= bytes.size(); i += sizeof word) {
    std::memcpy(&word, bytes.data() + i, sizeof word);
    if ((word & 0x8080808080808080) != 0) break;
  }
  while (i < bytes.size() && static_cast<unsigned char>(bytes[i]) < 0x80) ++i;
  return i;
}

}  // namespace

void append_utf8(std::string& text, char32_t code) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

std::u32string to_utf32(std::string_view text) {
  std::u32string codes;
  codes.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Decoded decoded = decode_at(text, at);
    codes.push_back(decoded.code);
    at += decoded.length;
  }
  return codes;
}

std::string to_utf8(std::u32string_view codes) {
  std::string text;
  text.reserve(codes.size());
  for (const char32_t code : codes) append_utf8(text, code);
  return text;
}

std::size_t count_chars(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

bool is_ascii(std::string_view text) {
  return ascii_prefix(text) == text.size();
}

Utf8Sequence sequence_at_front(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {1, true};
  if (first < 0xC2 || first > 0xF4) return {1, false};
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and values above U+10FFFF.
  unsigned char low = 0x80, high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  for (std::size_t i = 1; i < length; ++i, low = 0x80, high = 0xBF)
    if (i == bytes.size() || byte(i) < low || byte(i) > high) return {i, false};
  return {length, true};
}

std::size_t valid_prefix(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    at += ascii_prefix(bytes.substr(at));
    for (; at < bytes.size() && static_cast<unsigned char>(bytes[at]) >= 0x80;) {
      const Utf8Sequence sequence = sequence_at_front(bytes.substr(at));
      if (!sequence.is_valid) return at;
      at += sequence.length;
    }
  }
  return at;
}

std::string replace_invalid(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t valid = valid_prefix(bytes);
    text.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    append_utf8(text, kReplacement);
    bytes.remove_prefix(sequence_at_front(bytes).length);
  }
  return text;
}

}  // namespace trainctl::core
