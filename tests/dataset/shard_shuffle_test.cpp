#include "dataset/sampler/shard_shuffle.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "support/small_files.h"

namespace trainctl::dataset::shard_shuffle_test {

using namespace trainctl;
using namespace trainctl::dataset;

namespace {

std::vector<std::int64_t> indices(const Sampler& order, std::int64_t epoch) {
  const auto of_epoch = order.epoch(epoch);
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < order.size(); ++i) result.push_back(of_epoch->at(i).index);
  return result;
}

}  // namespace

TEST_CASE("a window order gives every sample once an epoch, for any sizes of shards", "[dataset]") {
  const std::vector<std::vector<std::int64_t>> all_sizes = {
      {1}, {0, 5, 0}, {7, 7, 7}, {100, 1, 50, 3, 0, 999}, std::vector<std::int64_t>(40, 13)};
  for (const auto& sizes : all_sizes)
    for (const std::int64_t window : {1, 2, 10, 64, 100000})
      for (const std::int64_t shards : {1, 3, 16}) {
        const auto order = make_window_order(sizes, {.window = window, .shards = shards, .seed = 5});
        std::vector<std::int64_t> expected(static_cast<std::size_t>(order->size()));
        std::iota(expected.begin(), expected.end(), 0);
        for (const std::int64_t epoch : {0, 1}) {
          std::vector<std::int64_t> got = indices(*order, epoch);
          std::sort(got.begin(), got.end());
          REQUIRE(got == expected);
        }
      }
}

TEST_CASE("a window order depends on seed and epoch alone", "[dataset]") {
  const std::vector<std::int64_t> sizes(20, 50);
  const auto order = make_window_order(sizes, {.window = 128, .shards = 4, .seed = 5});
  CHECK(indices(*order, 3) == indices(*make_window_order(sizes, {.window = 128, .shards = 4, .seed = 5}), 3));
  CHECK(indices(*order, 3) != indices(*order, 4));
  CHECK(indices(*order, 3) != indices(*make_window_order(sizes, {.window = 128, .shards = 4, .seed = 6}), 3));
}

TEST_CASE("shards are read from front to back, few at a time", "[dataset]") {
  constexpr std::int64_t kShards = 64;
  constexpr std::int64_t kSize = 1000;
  constexpr std::int64_t kMixed = 8;
  constexpr std::int64_t kWindow = 800;
  const auto order =
      make_window_order(std::vector<std::int64_t>(kShards, kSize), {.window = kWindow, .shards = kMixed, .seed = 1});
  const std::vector<std::int64_t> epoch = indices(*order, 2);
  std::map<std::int64_t, std::int64_t> reached;  // of each shard: the end of the stretch that was read last
  std::set<std::int64_t> finished;
  for (std::size_t begin = 0; begin < epoch.size(); begin += kWindow) {
    std::map<std::int64_t, std::vector<std::int64_t>> stretches;
    for (std::size_t i = begin; i < begin + kWindow; ++i) stretches[epoch[i] / kSize].push_back(epoch[i] % kSize);
    REQUIRE(stretches.size() == kMixed);
    for (auto& [shard, offsets] : stretches) {
      REQUIRE(offsets.size() == kWindow / kMixed);
      // One stretch, perhaps over the end, that goes on where the last one ended.
      std::sort(offsets.begin(), offsets.end());
      std::int64_t start = offsets.front();
      for (std::size_t i = 1; i < offsets.size(); ++i)
        if (offsets[i] != offsets[i - 1] + 1) start = offsets[i];
      if (reached.count(shard) != 0) REQUIRE(start == reached[shard] % kSize);
      reached[shard] = start + static_cast<std::int64_t>(offsets.size());
    }
  }
}

// The stated quality: what a window mixes is a random `shards` of the shards, evenly; within it the order is random;
// and from one epoch to the next neighbours part.
TEST_CASE("shards sorted by class still give mixed batches", "[dataset]") {
  constexpr std::int64_t kShards = 64;  // each of one class
  constexpr std::int64_t kSize = 512;
  constexpr std::int64_t kMixed = 16;
  constexpr std::int64_t kBatch = 256;
  const auto order =
      make_window_order(std::vector<std::int64_t>(kShards, kSize), {.window = 4096, .shards = kMixed, .seed = 9});
  const std::vector<std::int64_t> epoch = indices(*order, 0);
  double least_entropy = 100;
  for (std::size_t begin = 0; begin < epoch.size(); begin += kBatch) {
    std::map<std::int64_t, double> counts;
    for (std::size_t i = begin; i < begin + kBatch; ++i) counts[epoch[i] / kSize] += 1;
    double entropy = 0;
    for (const auto& [shard, count] : counts) entropy -= count / kBatch * std::log2(count / kBatch);
    least_entropy = std::min(least_entropy, entropy);
  }
  CHECK(least_entropy > 0.95 * std::log2(kMixed));  // all of a group's classes, nearly evenly

  std::vector<std::int64_t> place(epoch.size());
  for (std::size_t i = 0; i < epoch.size(); ++i)
    place[static_cast<std::size_t>(epoch[i])] = static_cast<std::int64_t>(i);
  std::int64_t together = 0;  // neighbours in a shard that come in the same batch
  for (std::size_t i = 1; i < place.size(); ++i) together += place[i] / kBatch == place[i - 1] / kBatch ? 1 : 0;
  const double chance = static_cast<double>(together) / static_cast<double>(place.size());
  CHECK(chance < 2.0 * kBatch / 4096);  // as by chance within a window of 4096

  const std::vector<std::int64_t> next = indices(*order, 1);
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::size_t i = 1; i < epoch.size(); ++i) pairs.insert({epoch[i - 1], epoch[i]});
  std::int64_t repeated = 0;
  for (std::size_t i = 1; i < next.size(); ++i) repeated += pairs.count({next[i - 1], next[i]}) != 0 ? 1 : 0;
  CHECK(repeated < 30);
}

}  // namespace trainctl::dataset::shard_shuffle_test
