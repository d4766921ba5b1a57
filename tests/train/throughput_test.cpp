#include "train/monitor/throughput.h"

#include <catch2/catch.hpp>

#include "support/manual_clock.h"

namespace trainctl::train {

using namespace std::chrono_literals;

TEST_CASE("pauses belong to no step, and waits are shares of the steps", "[train]") {
  testing::ManualClock clock;
  Throughput throughput(clock.now());
  throughput.start();
  clock.advance(50ms);
  throughput.pause_done();
  for (int i = 0; i < 4; ++i) {
    clock.advance(2ms);
    throughput.step_done({.samples = 8, .tokens = 24}, 0.5);
  }
  const Throughput::Window window = throughput.take_window();
  CHECK(window.step_ms == Approx(2));
  CHECK(window.total_ms == Approx(8));
  CHECK(window.data_wait_ms == Approx(0.5));
  CHECK(window.samples_per_s == Approx(4000));
  CHECK(window.tokens_per_s == Approx(12000));
  const Throughput::Summary summary = throughput.summary();
  CHECK(summary.median_step_ms == Approx(2));
  CHECK(summary.samples_per_s == Approx(4000));
  CHECK(summary.tokens_per_s == Approx(12000));
  CHECK(summary.data_wait_share == Approx(0.25));
}

TEST_CASE("a window has the steps since the last one, and the summary leaves the warm-up out", "[train]") {
  testing::ManualClock clock;
  Throughput throughput(clock.now());
  clock.advance(1s);
  throughput.start();
  for (int i = 0; i < 20; ++i) {
    clock.advance(i < 2 ? 100ms : 5ms);  // a tenth of twenty steps is warm-up
    throughput.step_done({.samples = 1}, 0);
    if (i == 1) CHECK(throughput.take_window().step_ms == Approx(100));
  }
  CHECK(throughput.take_window().step_ms == Approx(5));
  CHECK(throughput.take_window().samples_per_s == 0);
  CHECK(throughput.summary().samples_per_s == Approx(200));
}

}  // namespace trainctl::train
