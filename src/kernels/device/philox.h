// Philox4x32-10, a counter-based generator (https://doi.org/10.1145/2063384.2063405): four random words as a pure
// function of a key and a counter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/block.h"

namespace trainctl::kernels::device {

struct Philox {
  static constexpr std::uint32_t kMultiplier0 = 0xd2511f53;
  static constexpr std::uint32_t kMultiplier1 = 0xcd9e8d57;
  static constexpr std::uint32_t kKeyStep0 = 0x9e3779b9;
  static constexpr std::uint32_t kKeyStep1 = 0xbb67ae85;
  static constexpr int kRounds = 10;
};

/// Element e of a row takes word (e % 64) / 16 of counter (e / 64) · 16 + e % 16. Vectors are thus stored in the order
/// of their computation.
constexpr std::int64_t kCountersPerBlock = 16;
constexpr std::int64_t kWordsPerBlock = 4 * kCountersPerBlock;

/// Turns counters, `words[0..3][lane]`, into random words in place, all lanes at once.
template <std::size_t Lanes>
[[gnu::always_inline]] TRAINCTL_DEVICE constexpr void philox(std::uint32_t (&words)[4][Lanes], std::uint64_t key) {
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < Philox::kRounds; ++round) {
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
      const std::uint64_t product0 = std::uint64_t{Philox::kMultiplier0} * words[0][lane];
      const std::uint64_t product1 = std::uint64_t{Philox::kMultiplier1} * words[2][lane];
      words[0][lane] = static_cast<std::uint32_t>(product1 >> 32) ^ words[1][lane] ^ key0;
      words[2][lane] = static_cast<std::uint32_t>(product0 >> 32) ^ words[3][lane] ^ key1;
      words[1][lane] = static_cast<std::uint32_t>(product1);
      words[3][lane] = static_cast<std::uint32_t>(product0);
    }
    key0 += Philox::kKeyStep0;
    key1 += Philox::kKeyStep1;
  }
}

}  // namespace trainctl::kernels::device
