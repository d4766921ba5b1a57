#include "dataset/loader/readahead.h"

#include <catch2/catch.hpp>
#include <mutex>
#include <set>

#include "dataset/loader/loader.h"

namespace trainctl::dataset::readahead_test {

using namespace trainctl;
using namespace trainctl::dataset;

namespace {

constexpr std::int64_t kUs = 1000;

/// Takes note of the samples it is asked to get ready; all seem to be read slowly.
class NotingWriter final : public SampleWriter {
 public:
  std::int64_t input_bytes() const override { return 8; }
  std::int64_t target_count() const override { return 1; }
  Scratch make_scratch() const override { return {}; }
  void write(SampleKey key, Scratch& scratch, std::byte*, std::int64_t* target) const override {
    scratch.times.read += 5000 * kUs;
    *target = key.index;
  }
  void will_need(SampleKey key) const override {
    const std::lock_guard lock(mutex_);
    hinted_.insert(key.index);
  }
  Batch wrap(std::int64_t, void*, void*, const std::function<void(void*)>& release) const override {
    release(nullptr);
    return {};
  }
  std::size_t num_hinted() const {
    const std::lock_guard lock(mutex_);
    return hinted_.size();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::set<std::int64_t> hinted_;
};

class Numbers final : public RawSource {
 public:
  Numbers() { spec_.input_shape = {1}; }
  std::int64_t size() const override { return 400; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t sample_bytes() const override { return 8; }
  std::int64_t get(std::int64_t index, std::byte*) const override { return index; }
  std::string fingerprint() const override { return ""; }

 private:
  SampleSpec spec_;
};

}  // namespace

TEST_CASE("readahead is on while reads are slow, and looks anew each epoch", "[dataset]") {
  Readahead readahead;
  for (int i = 0; i < 100; ++i) readahead.note(0, 2, 2 * 30 * kUs);
  CHECK_FALSE(readahead.is_on());
  for (int i = 0; i < 5; ++i) readahead.note(0, 1, 500 * kUs);
  CHECK(readahead.is_on());
  for (int i = 0; i < 100; ++i) readahead.note(0, 1, 20 * kUs);  // which may be its doing
  CHECK(readahead.is_on());
  readahead.note(1, 1, 20 * kUs);
  CHECK_FALSE(readahead.is_on());
}

TEST_CASE("a loader that reads slowly asks for this rank's samples ahead", "[dataset]") {
  for (const std::int64_t world : {1, 3}) {
    LoaderParts parts;
    auto writer = std::make_unique<NotingWriter>();
    const NotingWriter& noting = *writer;
    parts.source = std::make_unique<Numbers>();
    parts.writer = std::move(writer);
    parts.batch_size = 5;
    parts.share = {.rank = world - 1, .world = world};
    parts.after_epoch = AfterEpoch::rest;
    const std::unique_ptr<Loader> loader = make_loader(std::move(parts));
    std::size_t batches = 0;
    while (loader->next()) ++batches;
    CHECK(batches == static_cast<std::size_t>((400 + 5 * world - 1) / (5 * world)));
    // All but those of the first slice and, of several ranks, of the last batch, which is cut otherwise.
    CHECK(noting.num_hinted() <= static_cast<std::size_t>(400 / world + 1));
    CHECK(noting.num_hinted() >= static_cast<std::size_t>(400 / world - 30));
  }
}

}  // namespace trainctl::dataset::readahead_test
