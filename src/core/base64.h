// Bytes as text in Base64 (RFC 4648).
#pragma once

#include <string>
#include <string_view>

namespace trainctl::core {

std::string base64(std::string_view bytes);

}  // namespace trainctl::core
