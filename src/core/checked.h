// Arithmetic on counts that come from files and configs: what overflows is nothing, instead of another number.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

namespace trainctl::core {

/// Returns the product of counts, or nothing if a count is negative. Returns nothing as well if the product of the
/// factors other than 0 is over the largest int64.
inline std::optional<std::int64_t> checked_product(const auto& counts) {
  std::int64_t product = 1;
  bool is_zero = false;
  for (const std::int64_t count : counts) {
    if (count < 0) return std::nullopt;
    is_zero |= count == 0;
    if (__builtin_mul_overflow(product, count == 0 ? 1 : count, &product)) return std::nullopt;
  }
  return is_zero ? 0 : product;
}
inline std::optional<std::int64_t> checked_product(std::initializer_list<std::int64_t> counts) {
  return checked_product<std::initializer_list<std::int64_t>>(counts);
}

}  // namespace trainctl::core
