#include "dataset/sampler/shard_shuffle.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "runtime/random.h"

namespace trainctl::dataset {
namespace {

struct DealtShard {
  std::int64_t first = 0;  // index of its first sample
  std::int64_t size = 0;
  std::int64_t start = 0;  // where in it this epoch begins
};

class WindowEpoch final : public EpochOrder {
 public:
  WindowEpoch(const std::vector<std::int64_t>& sizes, const WindowShuffle& shuffle, std::int64_t epoch)
      : epoch_(epoch), key_(runtime::mix(shuffle.seed, runtime::key_of("windows"), static_cast<std::uint64_t>(epoch))) {
    const auto count = static_cast<std::int64_t>(sizes.size());
    std::vector<std::int64_t> firsts(sizes.size());
    for (std::size_t i = 1; i < sizes.size(); ++i) firsts[i] = firsts[i - 1] + sizes[i - 1];
    const Order deal(runtime::mix(key_, runtime::key_of("deal")), epoch, count);
    runtime::Random starts(runtime::mix(key_, runtime::key_of("starts")));
    std::int64_t position = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto shard = static_cast<std::size_t>(deal(i));
      if (i % shuffle.shards == 0) groups_.push_back({.first_shard = shards_.size(), .position = position});
      Group& group = groups_.back();
      shards_.push_back(
          {.first = firsts[shard], .size = sizes[shard], .start = sizes[shard] > 0 ? starts.below(sizes[shard]) : 0});
      group.end_shard = shards_.size();
      group.size += sizes[shard];
      position += sizes[shard];
    }
    for (Group& group : groups_)
      group.windows = std::max<std::int64_t>(1, (group.size + shuffle.window - 1) / shuffle.window);
  }

  SampleKey at(std::int64_t position) const override {
    const auto after = std::upper_bound(groups_.begin(), groups_.end(), position,
                                        [](std::int64_t p, const Group& group) { return p < group.position; });
    const Group& group = *std::prev(after);
    const std::int64_t inside = position - group.position;
    // The share of a window is nearly equal, so the guess is off by little, if at all.
    std::int64_t window = inside * group.windows / group.size;
    while (begin_of(group, window) > inside) --window;
    while (begin_of(group, window + 1) <= inside) ++window;
    const std::int64_t begin = begin_of(group, window);
    const Order order(runtime::mix(key_, group.first_shard, static_cast<std::uint64_t>(window)), epoch_,
                      begin_of(group, window + 1) - begin);
    return {.epoch = epoch_, .index = index_of(group, window, order(inside - begin))};
  }

 private:
  struct Group {
    std::size_t first_shard = 0;
    std::size_t end_shard = 0;
    std::int64_t position = 0;  // of its first sample in the epoch
    std::int64_t size = 0;      // samples
    std::int64_t windows = 1;
  };

  /// Returns the number of a shard's samples before a window.
  static std::int64_t before(const DealtShard& shard, const Group& group, std::int64_t window) {
    return static_cast<std::int64_t>(static_cast<__int128>(shard.size) * window / group.windows);
  }

  std::int64_t begin_of(const Group& group, std::int64_t window) const {
    std::int64_t begin = 0;
    for (std::size_t i = group.first_shard; i < group.end_shard; ++i) begin += before(shards_[i], group, window);
    return begin;
  }

  /// Returns the index of the window's sample number `rank`, counted shard by shard.
  std::int64_t index_of(const Group& group, std::int64_t window, std::int64_t rank) const {
    for (std::size_t i = group.first_shard; i < group.end_shard; ++i) {
      const DealtShard& shard = shards_[i];
      const std::int64_t begin = before(shard, group, window);
      const std::int64_t stretch = before(shard, group, window + 1) - begin;
      if (rank < stretch) return shard.first + (shard.start + begin + rank) % shard.size;
      rank -= stretch;
    }
    core::ensure(false, "a window has the samples of its shards' stretches");
    return 0;
  }

  std::int64_t epoch_;
  std::uint64_t key_;
  std::vector<DealtShard> shards_;  // as they are dealt
  std::vector<Group> groups_;
};

class WindowOrder final : public Sampler {
 public:
  WindowOrder(std::vector<std::int64_t> sizes, WindowShuffle shuffle) : sizes_(std::move(sizes)), shuffle_(shuffle) {
    std::erase(sizes_, 0);
    for (const std::int64_t size : sizes_) size_ += size;
  }
  std::int64_t size() const override { return size_; }
  std::shared_ptr<const EpochOrder> epoch(std::int64_t epoch) const override {
    return std::make_shared<WindowEpoch>(sizes_, shuffle_, epoch);
  }

 private:
  std::vector<std::int64_t> sizes_;
  WindowShuffle shuffle_;
  std::int64_t size_ = 0;
};

}  // namespace

std::unique_ptr<Sampler> make_window_order(std::vector<std::int64_t> sizes, WindowShuffle shuffle) {
  core::ensure(shuffle.window > 0 && shuffle.shards > 0, "a window has samples, of some shards");
  return std::make_unique<WindowOrder>(std::move(sizes), shuffle);
}

}  // namespace trainctl::dataset
