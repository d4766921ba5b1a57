// Patterns for dotted names, as of layers and blocks.
#pragma once

#include <string_view>

namespace trainctl::core {

/// Whether the name, or its end behind a dot, is as the pattern says: `*` stands for any characters, `?` for one.
bool matches_name(std::string_view pattern, std::string_view name);

}  // namespace trainctl::core
