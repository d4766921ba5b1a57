// Randomness as a pure function: a stream is named by what it is for (seed, epoch, index, …), never by what ran before,
// so that any worker count, world size or resume sees the same numbers.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace trainctl::runtime {

/// The finaliser of SplitMix64 (https://doi.org/10.1145/2714064.2660195): every output bit depends on every input bit.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// One key of several: `mix(seed, epoch, index)`.
template <std::convertible_to<std::uint64_t>... Rest>
constexpr std::uint64_t mix(std::uint64_t first, std::uint64_t second, Rest... rest) {
  return mix(mix(first) ^ second, rest...);
}

/// A name as a key (FNV-1a).
constexpr std::uint64_t key_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

/// Numbers of one stream. Counter-based: value `i` is mix(key, i).
class Random {
 public:
  explicit constexpr Random(std::uint64_t key) : key_(key) {}

  constexpr std::uint64_t next() { return mix(key_, counter_++); }
  /// In [0, 1), 53 bits.
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  constexpr double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// In [0, n), n > 0; the bias of the multiplication is below n / 2^64.
  constexpr std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>((static_cast<unsigned __int128>(next()) * static_cast<unsigned __int128>(n)) >>
                                     64);
  }
  /// Standard normal (Box-Muller).
  double normal() {
    const double radius = std::sqrt(-2 * std::log1p(-uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

}  // namespace trainctl::runtime
