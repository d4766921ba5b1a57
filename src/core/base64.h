// Bytes as text in Base64 (RFC 4648).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trainctl::core {

std::string base64(std::string_view bytes);
/// Returns the bytes of a text, with or without the '=' at its end; nothing if it has any other character.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace trainctl::core
