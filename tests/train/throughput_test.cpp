#include "train/monitor/throughput.h"

#include <catch2/catch.hpp>
#include <thread>

namespace trainctl::train {

TEST_CASE("pauses belong to no step, and waits are shares of the steps", "[train]") {
  using namespace std::chrono_literals;
  Throughput pace;
  pace.start();
  std::this_thread::sleep_for(50ms);
  pace.pause_done();
  for (int i = 0; i < 4; ++i) {
    std::this_thread::sleep_for(2ms);
    pace.step_done({.samples = 8}, 1.0);
  }
  const Throughput::Window window = pace.take_window();
  CHECK(window.step_ms >= 2);
  CHECK(window.data_wait_ms == 1.0);
  CHECK(window.samples_per_s == Approx(8 / window.step_ms * 1e3));
  CHECK(pace.summary().median_step_ms >= 2);
  CHECK(pace.summary().data_wait_share == Approx(1 / (8e3 / pace.summary().samples_per_s)));
  CHECK(pace.take_window().samples_per_s == 0);
}

}  // namespace trainctl::train
