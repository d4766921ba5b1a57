#include "dataset/length_buckets.h"

#include <algorithm>

#include "runtime/random.h"

namespace trainctl {

LengthBuckets::LengthBuckets(std::span<const std::int32_t> lengths, std::int64_t batch_size,
                             std::int64_t window_batches, std::uint64_t seed)
    : lengths_(lengths),
      batch_size_(batch_size),
      window_size_(batch_size * window_batches),
      seed_(mix(seed, key_of("length buckets"))) {}

std::vector<std::int64_t> LengthBuckets::batch(const Order& order, Position start, std::int64_t count) {
  std::vector<std::int64_t> indices;
  for (std::int64_t position = start.sample; position < start.sample + count; ++position) {
    const std::int64_t window = position / window_size_;
    if (made_ != Position{.epoch = start.epoch, .sample = window * window_size_})
      make_window(order, start.epoch, window);
    indices.push_back(window_[static_cast<std::size_t>(position - made_.sample)]);
  }
  return indices;
}

void LengthBuckets::make_window(const Order& order, std::int64_t epoch, std::int64_t window) {
  made_ = {.epoch = epoch, .sample = window * window_size_};
  const std::int64_t size = std::min(window_size_, order.size() - made_.sample);
  std::vector<std::int64_t> sorted(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) sorted[static_cast<std::size_t>(i)] = order(made_.sample + i);
  const std::int64_t whole = size / batch_size_;
  // What is left over is set aside before sorting: it would be the longest, always.
  const auto left_over = sorted.begin() + whole * batch_size_;
  std::stable_sort(sorted.begin(), left_over, [&](std::int64_t a, std::int64_t b) {
    return lengths_[static_cast<std::size_t>(a)] < lengths_[static_cast<std::size_t>(b)];
  });
  const Order batches(mix(seed_, static_cast<std::uint64_t>(window)), epoch, std::max<std::int64_t>(whole, 1));
  window_.clear();
  for (std::int64_t b = 0; b < whole; ++b) {
    const auto begin = sorted.begin() + batches(b) * batch_size_;
    window_.insert(window_.end(), begin, begin + batch_size_);
  }
  window_.insert(window_.end(), left_over, sorted.end());
}

}  // namespace trainctl
