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

/// Makes an order of shuffled windows over shards. Each epoch deals the shards, in a new order, to groups of `shards`
/// shards, and draws a start in each shard. A window has the same share of each shard of its group, and is shuffled as
/// a whole. A shard's stretches follow one another from its start to its end, and then from its front to its start. At
/// any time at most `shards` shards are thus read, each once, with a second pass from the front after the end. Each
/// sample of a random `shards` of the shards is equally likely in a window.
///
/// `sizes`: samples of each shard, which follow one another in the source's indices. Seeking takes O(log groups +
/// shards) after O(number of shards) once an epoch.
std::unique_ptr<Sampler> make_window_order(std::vector<std::int64_t> sizes, WindowShuffle shuffle);

}  // namespace trainctl::dataset
