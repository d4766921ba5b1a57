// Stored integers of any width as the int64 values that batches hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace trainctl::dataset {

/// `from` holds to.size() values of type Stored, and needn't be aligned.
template <class Stored>
void widen(const std::byte* from, std::span<std::int64_t> to) {
  for (std::int64_t& value : to) {
    Stored stored;
    std::memcpy(&stored, from, sizeof stored);
    value = static_cast<std::int64_t>(stored);
    from += sizeof stored;
  }
}

}  // namespace trainctl::dataset
