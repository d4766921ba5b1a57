#include "core/base64.h"

#include <algorithm>
#include <cstdint>

namespace trainctl::core {

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[group >> shift & 63];
  }
  const std::size_t rest = bytes.size() % 3;
  if (rest > 0) std::fill(text.end() - static_cast<std::ptrdiff_t>(3 - rest), text.end(), '=');
  return text;
}

}  // namespace trainctl::core
