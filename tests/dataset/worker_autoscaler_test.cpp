#include "dataset/loader/worker_autoscaler.h"

#include <ATen/ops/equal.h>
#include <dirent.h>

#include <atomic>
#include <thread>

#include "core/file.h"
#include "dataset/loader/loader.h"
#include "support/manual_clock.h"
#include "support/small_files.h"

namespace trainctl::dataset::worker_autoscaler_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;

namespace {

constexpr std::int64_t kMs = 1'000'000;

/// A second in which ten batches came, each of `decode_ms` of some thread, and next() waited for `wait_ms` in all.
GrowthWindow window(double wait_ms, std::int64_t decode_ms, std::int64_t read_ms = 0) {
  return {.total_ms = 1000,
          .wait_ms = wait_ms,
          .batches = 10,
          .times = {.read = 10 * read_ms * kMs, .decode = 10 * decode_ms * kMs, .transform = 0}};
}

/// How samples are made that take 3 ms each, and only while the consumer waits for a batch: none is ready before.
struct SlowMaking {
  ManualClock clock;
  std::atomic<bool> is_waited_for = false;

  void set_waited_for(bool is_now) {
    is_waited_for = is_now;
    is_waited_for.notify_all();
  }
};

/// Lets the workers end what they have begun, so that their loader can be destroyed.
class Release {
 public:
  explicit Release(SlowMaking& making) : making_(making) {}
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;
  ~Release() { making_.set_waited_for(true); }

 private:
  SlowMaking& making_;
};

/// Samples that are made so, or at once.
class SlowSource final : public RawSource {
 public:
  explicit SlowSource(SlowMaking* making) : making_(making) { spec_.input_shape = {1, 1, 4}; }
  std::int64_t size() const override { return 400; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t sample_bytes() const override { return 4; }
  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    if (making_ != nullptr) {
      making_->is_waited_for.wait(false);
      making_->clock.advance(std::chrono::milliseconds(3));
    }
    std::fill_n(sample, 4, static_cast<std::byte>(index));
    return index;
  }
  std::string fingerprint() const override { return ""; }

 private:
  SlowMaking* making_;
  SampleSpec spec_;
};

std::unique_ptr<Loader> slow_loader(std::int64_t workers, std::int64_t most_workers, SlowMaking* making) {
  LoaderParts parts;
  if (making != nullptr) parts.now = making->clock.now();
  parts.source = std::make_unique<SlowSource>(making);
  parts.writer = make_image_writer(raw_samples(*parts.source),
                                   Transforms({}, image_shape(parts.source->spec()), Phase::training), 1);
  parts.batch_size = 4;
  parts.shuffling = Shuffling::each_epoch;
  parts.workers = workers;
  parts.most_workers = most_workers;
  return make_loader(std::move(parts));
}

/// Threads of this process with a loader's name.
std::int64_t loader_threads() {
  std::int64_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    count += core::read_file(task.path() / "comm").starts_with("loader-") ? 1 : 0;
  return count;
}

/// A thread that has been joined is listed in /proc a little longer, and one that has begun isn't named at once.
bool are_loader_threads(std::int64_t expected) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (loader_threads() != expected && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return loader_threads() == expected;
}

}  // namespace

TEST_CASE("as many workers are taken as keep up with the consumer", "[dataset]") {
  // A batch costs 100 ms of a thread; the consumer itself takes 25 ms.
  CHECK(workers_after(window(750, 100), 1, 16) == 4);
  CHECK(workers_after(window(750, 100), 1, 3) == 3);
  CHECK(workers_after(window(1000, 100), 1, 16) == 16);  // it takes none
  CHECK(workers_after(window(100, 100), 4, 16) == 5);    // the estimate says two; but it waits, so more are needed
}

TEST_CASE("workers stay as they are where more would not help", "[dataset]") {
  CHECK(workers_after(window(40, 100), 2, 16) == 2);      // next() hardly waits
  CHECK(workers_after(window(750, 30, 70), 2, 16) == 2);  // the disk is slow
  CHECK(workers_after(window(750, 70, 30), 2, 16) > 2);
  CHECK(workers_after(window(750, 100), 16, 16) == 16);
  CHECK(workers_after(window(750, 100), 3, 0) == 3);  // a number that was asked for
}

TEST_CASE("growth is decided after enough batches and time, without the first batch", "[dataset]") {
  WorkerAutoscaler growth(1, 8);
  growth.batch_given(5000, 5000, {.decode = 100 * kMs});  // starting up
  for (int i = 1; i <= 8; ++i) {
    CHECK(growth.workers() == 1);
    growth.batch_given(5000 + 100 * i, 75, {.decode = (100 + 100 * i) * kMs});
  }
  CHECK(growth.workers() == 4);
  WorkerAutoscaler hasty(1, 8);
  for (int i = 0; i < 100; ++i) hasty.batch_given(i, 1, {.decode = i * kMs});
  CHECK(hasty.workers() == 1);  // a hundred batches, but a tenth of a second
}

TEST_CASE("a loader that starves takes more workers, and gives the same batches", "[dataset]") {
  SlowMaking making;
  const auto fixed = slow_loader(3, 0, nullptr);
  const auto growing = slow_loader(1, 3, &making);
  const Release release(making);
  for (int i = 0; i < 100; ++i) {
    const std::optional<Batch> expected = fixed->next();
    making.set_waited_for(true);
    const std::optional<Batch> given = growing->next();
    making.set_waited_for(false);
    REQUIRE(given.has_value() == expected.has_value());
    CHECK(given->inputs.equal(expected->inputs));
    CHECK(given->targets.equal(expected->targets));
  }
  const LoaderStats stats = growing->take_stats();
  CHECK(stats.workers == 3);
  CHECK(stats.most_workers == 3);
  CHECK(fixed->take_stats().most_workers == 0);
}

TEST_CASE("an explicit number of workers is obeyed, whatever the loader waits for", "[dataset]") {
  DatasetConfig config;
  config.source = SyntheticImagesConfig{.num_samples = 2000, .height = 64, .width = 64};
  config.batch_size = 8;
  for (const std::int64_t workers : {0, 2}) {
    config.num_workers = workers;
    const Datasets data = build(config, {.workers = 1, .most_workers = 8});
    for (int batch = 0; batch < 40; ++batch) data.train->next();
    const LoaderStats stats = data.train->take_stats();
    CHECK(stats.workers == workers);
    CHECK(stats.most_workers == 0);  // there will not be more either
    CHECK(are_loader_threads(workers));
  }
}

TEST_CASE("workers that aren't persistent end with the epoch, and are there again in the next", "[dataset]") {
  DatasetConfig config;
  config.source = SyntheticImagesConfig{.num_samples = 40, .num_eval_samples = 10, .height = 8, .width = 8};
  config.batch_size = 8;
  config.num_workers = 2;
  std::vector<at::Tensor> kept;
  const Datasets persistent = build(config, {});
  config.persistent_workers = false;
  const Datasets ending = build(config, {});
  for (int epoch = 0; epoch < 3; ++epoch) {
    while (const std::optional<Batch> expected = persistent.train->next()) {
      const std::optional<Batch> given = ending.train->next();
      REQUIRE(given);
      CHECK(given->inputs.equal(expected->inputs));
    }
    CHECK(are_loader_threads(4));
    CHECK_FALSE(ending.train->next());
    CHECK(are_loader_threads(2));
  }
  ending.eval->seek({});
  CHECK(are_loader_threads(4));
  while (ending.eval->next()) continue;
  CHECK(are_loader_threads(2));
}

}  // namespace trainctl::dataset::worker_autoscaler_test
