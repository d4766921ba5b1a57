// What bytes a YAML text may be made of.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace trainctl::config {

/// The first byte that can't stand in a YAML text.
struct BadByte {
  std::size_t offset;
  int line;    // 1-based
  int column;  // 1-based, in characters
  std::string reason;
};

/// Finds bytes that aren't UTF-8, and control characters.
std::optional<BadByte> find_bad_byte(std::string_view text);

}  // namespace trainctl::config
