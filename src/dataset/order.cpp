#include "dataset/order.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "runtime/random.h"

namespace trainctl {
namespace {

// A smaller network has too few permutations to reach all orders of a small set equally often.
constexpr int kLeastBits = 8;

}  // namespace

Order::Order(std::int64_t size) : size_(size) {
  ensure(size >= 0, "an order has a size");
}

Order::Order(std::uint64_t seed, std::int64_t epoch, std::int64_t size) : Order(size) {
  shuffled_ = size > 1;
  const auto last = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1) - 1);
  const int bits = std::max(kLeastBits, static_cast<int>(std::bit_width(last)));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  Random keys(mix(seed, key_of("order"), static_cast<std::uint64_t>(epoch)));
  for (std::uint64_t& key : keys_) key = keys.next();
}

std::int64_t Order::operator()(std::int64_t position) const {
  if (!shuffled_) return position;
  auto value = static_cast<std::uint64_t>(position);
  do value = permute(value);
  while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(value);
}

std::uint64_t Order::permute(std::uint64_t value) const {
  int low_bits = low_bits_;
  int high_bits = high_bits_;
  for (const std::uint64_t key : keys_) {
    const std::uint64_t low = value & ((std::uint64_t{1} << low_bits) - 1);
    const std::uint64_t high = (value >> low_bits) ^ (mix(low ^ key) & ((std::uint64_t{1} << high_bits) - 1));
    value = low << high_bits | high;  // the halves change places
    std::swap(low_bits, high_bits);
  }
  return value;
}

}  // namespace trainctl
