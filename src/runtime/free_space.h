// How the memory that an allocator holds, and nobody uses, lies: a lot of it in small pieces is of little use.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace trainctl::runtime {

struct FreeSpace {
  /// Blocks are told apart by size: class i begins at kSmallest << 2i, class 0 at 0.
  static constexpr std::size_t kNumClasses = 12;
  static constexpr std::int64_t kSmallest = 4096;

  std::int64_t reserved = 0;   // bytes held from the system or the driver
  std::int64_t allocated = 0;  // of those, in use
  std::int64_t largest = 0;    // free block
  std::array<std::int64_t, kNumClasses> by_class{};

  static constexpr std::int64_t edge_of(std::size_t index) { return index == 0 ? 0 : kSmallest << (2 * index); }
  constexpr void add(std::int64_t bytes) {
    largest = bytes > largest ? bytes : largest;
    std::size_t index = 0;
    while (index + 1 < kNumClasses && bytes >= edge_of(index + 1)) ++index;
    by_class[index] += bytes;
  }
};

}  // namespace trainctl::runtime
