// What figures are counted in.
#pragma once

#include <cstdint>

namespace trainctl::core {

inline constexpr std::int64_t kMiB = 1 << 20;
inline constexpr double kNsPerMs = 1e6;

}  // namespace trainctl::core
