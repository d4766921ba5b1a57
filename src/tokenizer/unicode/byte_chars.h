// GPT-2's alphabet: each byte as a printable character (a space is Ġ), and back.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace trainctl::tokenizer {

/// The character of each byte.
const std::array<char32_t, 256>& byte_chars();
/// The byte of a character, or -1.
int byte_of_char(char32_t code);
/// Each byte as its character, in UTF-8.
std::string bytes_to_chars(std::string_view bytes);
/// The bytes that the characters stand for; nothing where one stands for none.
std::optional<std::string> chars_to_bytes(std::string_view text);

}  // namespace trainctl::tokenizer
