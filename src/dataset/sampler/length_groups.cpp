#include "dataset/sampler/length_groups.h"

#include <algorithm>

#include "runtime/random.h"

namespace trainctl::dataset {

LengthBuckets::LengthBuckets(std::span<const std::int32_t> lengths, std::int64_t batch_size,
                             std::int64_t window_batches, std::uint64_t seed)
    : lengths_(lengths),
      batch_size_(batch_size),
      window_size_(batch_size * window_batches),
      seed_(runtime::mix(seed, runtime::key_of("length buckets"))) {}

std::vector<SampleKey> LengthBuckets::batch(const EpochOrder& order, std::int64_t size, Position start,
                                            std::int64_t count) {
  std::vector<SampleKey> keys;
  for (std::int64_t position = start.sample; position < start.sample + count; ++position) {
    const Position window{.epoch = start.epoch, .sample = position / window_size_ * window_size_};
    if (made_ != window) make_window(order, size, window);
    keys.push_back(window_[static_cast<std::size_t>(position - made_.sample)]);
  }
  return keys;
}

void LengthBuckets::make_window(const EpochOrder& order, std::int64_t size, Position start) {
  made_ = start;
  const std::int64_t count = std::min(window_size_, size - start.sample);
  std::vector<SampleKey> sorted(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) sorted[static_cast<std::size_t>(i)] = order.at(start.sample + i);
  const std::int64_t whole = count / batch_size_;
  // What is left over is set aside before sorting: it would be the longest, always.
  const auto left_over = sorted.begin() + whole * batch_size_;
  const auto length = [&](SampleKey key) { return lengths_[static_cast<std::size_t>(key.index)]; };
  std::stable_sort(sorted.begin(), left_over, [&](SampleKey a, SampleKey b) { return length(a) < length(b); });
  const auto window = static_cast<std::uint64_t>(start.sample / window_size_);
  const Order batches(runtime::mix(seed_, window), start.epoch, std::max<std::int64_t>(whole, 1));
  window_.clear();
  for (std::int64_t b = 0; b < whole; ++b) {
    const auto begin = sorted.begin() + batches(b) * batch_size_;
    window_.insert(window_.end(), begin, begin + batch_size_);
  }
  window_.insert(window_.end(), left_over, sorted.end());
}

}  // namespace trainctl::dataset
