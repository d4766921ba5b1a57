// Batches of samples of similar length, so that padding is little; still a pure function of the order and the epoch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataset/dataset.h"
#include "dataset/sampler/sampler.h"

namespace trainctl::dataset {

/// Cuts an epoch's order into windows of some batches, sorts each window by length, and shuffles the window's batches.
/// Every sample still comes once an epoch; an incomplete batch stays the last.
class LengthBuckets {
 public:
  /// `lengths` by index; they must outlive this.
  LengthBuckets(std::span<const std::int32_t> lengths, std::int64_t batch_size, std::int64_t window_batches,
                std::uint64_t seed);
  /// The `count` samples from `start` on, of an epoch with `size` positions.
  std::vector<SampleKey> batch(const EpochOrder& order, std::int64_t size, Position start, std::int64_t count);

 private:
  void make_window(const EpochOrder& order, std::int64_t size, Position start);

  std::span<const std::int32_t> lengths_;
  std::int64_t batch_size_;
  std::int64_t window_size_;  // samples
  std::uint64_t seed_;
  Position made_{.epoch = -1, .sample = 0};  // the window that window_ holds
  std::vector<SampleKey> window_;
};

}  // namespace trainctl::dataset
