#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <numeric>

#include "dataset/collate/sample_writer.h"
#include "dataset/dataset.h"
#include "dataset/loader/loader.h"
#include "dataset/sampler/sampler.h"
#include "dataset/sampler/shard_shuffle.h"
#include "support/small_files.h"

namespace trainctl::dataset::loader_ranks_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;

namespace {

/// Each sample is its index; optionally in shards with an order of their own.
class NumberedSource final : public RawSource {
 public:
  NumberedSource(std::int64_t size, std::int64_t window) : size_(size), window_(window) {
    spec_.input_shape = {1};
    spec_.input_dtype = at::kLong;
  }
  std::int64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t sample_bytes() const override { return 16; }
  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    reinterpret_cast<std::int64_t*>(sample)[0] = index;
    reinterpret_cast<std::int64_t*>(sample)[1] = -index;
    return 0;
  }
  std::string fingerprint() const override { return ""; }
  std::unique_ptr<Sampler> make_order(Shuffling, std::uint64_t seed) const override {
    if (window_ == 0) return nullptr;
    return make_window_order({size_ / 3, size_ / 2, size_ - size_ / 3 - size_ / 2},
                             {.window = window_, .shards = 2, .seed = seed});
  }

 private:
  std::int64_t size_;
  std::int64_t window_;
  SampleSpec spec_;
};

struct Data {
  std::int64_t size = 1000;
  std::int64_t window = 0;
  LastBatch last_batch = LastBatch::keep;
};

std::unique_ptr<Loader> loader_of(const Data& data, Share share, std::int64_t batch_size, std::int64_t workers) {
  LoaderParts parts;
  parts.source = std::make_unique<NumberedSource>(data.size, data.window);
  parts.writer = make_token_writer(raw_samples(*parts.source));
  parts.seed = 7;
  parts.share = share;
  parts.batch_size = batch_size;
  parts.workers = workers;
  parts.shuffling = Shuffling::each_epoch;
  parts.last_batch = data.last_batch;
  return make_loader(std::move(parts));
}

std::vector<std::int64_t> indices(const Batch& batch) {
  const at::Tensor flat = batch.inputs.contiguous();
  return {flat.const_data_ptr<std::int64_t>(), flat.const_data_ptr<std::int64_t>() + flat.numel()};
}

/// Some ranks in step.
class Ranks {
 public:
  Ranks(const Data& data, std::int64_t world, std::int64_t batch_size, std::int64_t workers, Position start = {}) {
    for (std::int64_t rank = 0; rank < world; ++rank) {
      loaders_.push_back(loader_of(data, {.rank = rank, .world = world}, batch_size, workers));
      loaders_.back()->seek(start);
    }
  }

  /// What the ranks are given together, in the order of the ranks; empty: the epoch's end, on all of them.
  std::vector<std::int64_t> next() {
    std::vector<std::int64_t> together;
    std::int64_t without = 0;
    for (const auto& loader : loaders_) {
      const std::optional<Batch> batch = loader->next();
      without += batch ? 0 : 1;
      if (!batch) continue;
      const std::vector<std::int64_t> own = indices(*batch);
      together.insert(together.end(), own.begin(), own.end());
    }
    REQUIRE((without == 0 || without == static_cast<std::int64_t>(loaders_.size())));
    for (const auto& loader : loaders_) REQUIRE(loader->position() == loaders_[0]->position());
    return together;
  }
  Position position() const { return loaders_[0]->position(); }
  std::int64_t batches_per_epoch() const { return loaders_[0]->batches_per_epoch(); }

  std::vector<std::int64_t> rest_of_epoch() {
    std::vector<std::int64_t> all;
    for (std::vector<std::int64_t> some = next(); !some.empty(); some = next())
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }

 private:
  std::vector<std::unique_ptr<Loader>> loaders_;
};

std::vector<std::int64_t> sorted(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<std::int64_t> all_of(std::int64_t size) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

TEST_CASE("ranks together see what one process sees, in its order", "[dataset]") {
  for (const std::int64_t window : {0, 100})
    for (const std::int64_t size : {1000, 997, 5}) {
      const Data data{.size = size, .window = window};
      const std::vector<std::int64_t> alone = Ranks(data, 1, 7, 0).rest_of_epoch();
      CHECK(sorted(alone) == all_of(size));
      for (const std::int64_t world : {2, 3, 4, 8})
        for (const std::int64_t workers : {0, 2}) CHECK(Ranks(data, world, 7, workers).rest_of_epoch() == alone);
    }
}

TEST_CASE("a run stopped on four ranks goes on on any number of them", "[dataset]") {
  for (const std::int64_t window : {0, 128}) {
    const Data data{.size = 2011, .window = window};
    const std::vector<std::int64_t> alone = Ranks(data, 1, 16, 0).rest_of_epoch();
    for (const std::int64_t world : {1, 2, 3, 4, 8})
      for (const std::int64_t steps : {1, 9, 31}) {
        Ranks before(data, 4, 16, 1);
        std::vector<std::int64_t> seen;
        for (std::int64_t i = 0; i < steps; ++i) {
          const std::vector<std::int64_t> some = before.next();
          seen.insert(seen.end(), some.begin(), some.end());
        }
        // Another batch size too: the position counts samples.
        Ranks after(data, world, world == 8 ? 5 : 16, world % 3, before.position());
        const std::vector<std::int64_t> rest = after.rest_of_epoch();
        seen.insert(seen.end(), rest.begin(), rest.end());
        REQUIRE(seen == alone);
        REQUIRE(after.position() == Position{.epoch = 1, .sample = 0});
      }
  }
}

TEST_CASE("all ranks have as many batches, the last of them shared evenly or dropped", "[dataset]") {
  Ranks keeps({.size = 26}, 4, 6, 1);
  CHECK(keeps.batches_per_epoch() == 2);
  CHECK(keeps.next().size() == 24);
  CHECK(keeps.next().size() == 2);  // two of the ranks have none
  CHECK(keeps.next().empty());
  Ranks drops({.size = 26, .last_batch = LastBatch::drop}, 4, 6, 1);
  CHECK(drops.batches_per_epoch() == 1);
  CHECK(drops.next().size() == 24);
  CHECK(drops.next().empty());
  CHECK(drops.next().size() == 24);
}

TEST_CASE("the middle of ten million samples is reached without going there", "[dataset]") {
  const Data data{.size = 10'000'000, .window = 16384};
  const auto loader = loader_of(data, {.rank = 1, .world = 4}, 32, 1);
  loader->seek({.epoch = 3, .sample = 5'000'000});
  const std::vector<std::int64_t> some = indices(*loader->next());
  CHECK(some.size() == 32);
  CHECK(loader->position().sample == 5'000'128);
}

TEST_CASE("a loader tells how it spent its time since it was last asked", "[dataset]") {
  const auto loader = loader_of({.size = 1000}, {}, 10, 0);
  for (int i = 0; i < 5; ++i) loader->next();
  const LoaderStats stats = loader->take_stats();
  CHECK(stats.batches == 5);
  CHECK(stats.starved == 5);  // there is no worker
  CHECK(stats.wait_ms > 0);
  CHECK(stats.transform_ms > 0);
  CHECK(stats.workers == 0);
  CHECK(loader->take_stats().batches == 0);
}

}  // namespace trainctl::dataset::loader_ranks_test
