// An order for data in shards that are too large to be read at random: each shard is read from front to back, yet what
// comes is shuffled.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dataset/sampler/sampler.h"

namespace trainctl::dataset {

struct WindowShuffle {
  std::int64_t window = 0;   // samples; what is held at once is at most this and a reader's share more
  std::int64_t shards = 16;  // that a window mixes
  std::uint64_t seed = 0;
};

/// Each epoch the shards are dealt, in a new order, to groups of `shards` of them. Windows go through a group: a window
/// has an equal stretch of each of its shards, wherever that epoch begins in them, and is shuffled as a whole. So at
/// any time at most `shards` shards are read, each once through (the second pass over its first stretch apart, where it
/// wraps), and the samples that come within a window were chosen evenly from all of a random `shards` of the shards.
///
/// `sizes`: samples of each shard, which follow one another in the source's indices. Seeking takes O(log groups +
/// shards) after O(number of shards) once an epoch.
std::unique_ptr<Sampler> make_window_order(std::vector<std::int64_t> sizes, WindowShuffle shuffle);

}  // namespace trainctl::dataset
