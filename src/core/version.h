// The program's version. CMake reads it here.
#pragma once

#include <string_view>

namespace trainctl::core {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace trainctl::core
