#include "train/monitor/data_stall_monitor.h"

#include <catch2/catch.hpp>
#include <utility>

namespace trainctl::train {

using Catch::Matchers::Contains;

namespace {

/// Has statistics, and nothing else.
class ToldLoader final : public dataset::Loader {
 public:
  std::optional<dataset::Batch> next() override { return std::nullopt; }
  void seek(dataset::Position) override {}
  dataset::Position position() const override { return {}; }
  std::int64_t num_samples() const override { return 0; }
  std::int64_t batches_per_epoch() const override { return 0; }
  const dataset::SampleSpec& spec() const override { return spec_; }
  double last_wait_ms() const override { return 0; }
  dataset::LoaderStats take_stats() override { return stats; }

  dataset::LoaderStats stats{.batches = 10, .decode_ms = 1200, .workers = 1, .most_workers = 7};

 private:
  dataset::SampleSpec spec_;
};

}  // namespace

TEST_CASE("the number of workers that auto came to is told once, when it has settled", "[train]") {
  ToldLoader loader;
  DataStallMonitor watch(loader);
  const auto told = [&](std::int64_t workers) {
    loader.stats.workers = workers;
    watch.take_window(1000);
    return watch.take_growth();
  };
  CHECK_FALSE(told(1));
  CHECK_FALSE(told(1));
  CHECK_FALSE(told(3));
  CHECK_FALSE(told(5));
  const std::optional<std::string> line = told(5);
  REQUIRE(line);
  CHECK_THAT(*line, Contains("auto came to 5 threads (at most 7") && Contains("a batch costs one 120 ms"));
  CHECK_FALSE(told(5));
  CHECK(told(7));  // it can't become more
  CHECK_FALSE(told(7));
  CHECK(watch.workers() == 7);
}

TEST_CASE("of a number of workers that was asked for, nothing is told", "[train]") {
  ToldLoader loader;
  loader.stats.most_workers = 0;
  loader.stats.workers = 4;
  DataStallMonitor watch(loader);
  for (int i = 0; i < 3; ++i) {
    watch.take_window(1000);
    CHECK_FALSE(watch.take_growth());
  }
}

}  // namespace trainctl::train
