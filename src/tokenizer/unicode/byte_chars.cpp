#include "tokenizer/unicode/byte_chars.h"

#include "core/utf8.h"

namespace trainctl::tokenizer {
namespace {

constexpr bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> kChars = [] {
  std::array<char32_t, 256> chars{};
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte)
    chars[static_cast<std::size_t>(byte)] = is_printable(byte) ? static_cast<char32_t>(byte) : next++;
  return chars;
}();

constexpr std::array<std::int16_t, 512> kBytes = [] {
  std::array<std::int16_t, 512> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (std::size_t byte = 0; byte < 256; ++byte) bytes[kChars[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}();

}  // namespace

const std::array<char32_t, 256>& byte_chars() {
  return kChars;
}

int byte_of_char(char32_t code) {
  return code < kBytes.size() ? kBytes[code] : -1;
}

std::string bytes_to_chars(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) core::append_utf8(text, kChars[static_cast<unsigned char>(byte)]);
  return text;
}

std::optional<std::string> chars_to_bytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const core::Decoded decoded = core::decode_at(text, at);
    const int byte = byte_of_char(decoded.code);
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    at += decoded.length;
  }
  return bytes;
}

}  // namespace trainctl::tokenizer
