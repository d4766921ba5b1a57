#include "plan/memory/memory_tracker.h"

#include <catch2/catch.hpp>

namespace trainctl::plan {

TEST_CASE("the peak is the moment when most is held, by what it is held for", "[plan]") {
  MemoryTracker log;
  log.enter_phase("build");
  log.set_purpose(Purpose::parameters);
  log.take(100);
  log.set_purpose(std::nullopt);
  log.enter_phase("forward");
  log.enter_block("first");
  const std::int64_t kept = log.take(10);
  log.enter_block("second");
  const std::int64_t more = log.take(20);
  log.enter_block("");
  log.enter_phase("backward");
  const std::int64_t scratch = log.take(5);
  log.give_back(scratch);
  log.give_back(more);
  log.give_back(kept);
  log.take(7);

  const MemoryTracker::Peak peak = log.peak(0, log.now());
  CHECK(peak.held.total() == 135);
  CHECK(peak.held.of(Purpose::parameters) == 100);
  CHECK(peak.held.of(Purpose::activations) == 30);
  CHECK(peak.held.of(Purpose::workspace) == 5);
  CHECK(peak.moment.phase == "backward");
  REQUIRE(peak.blocks.size() == 2);
  CHECK(peak.blocks[0].activation_bytes + peak.blocks[1].activation_bytes == 30);
  CHECK(log.held_now() == 107);
}

TEST_CASE("in the backward pass the block is the one whose activations are being used up", "[plan]") {
  MemoryTracker log;
  log.enter_phase("forward");
  log.enter_block("last");
  const std::int64_t held = log.take(10);
  log.enter_block("");
  log.enter_phase("backward");
  log.give_back(held);
  log.take(50);
  CHECK(log.peak(0, log.now()).moment.block == "last");
}

TEST_CASE("a piece that was an estimate is corrected for as long as it was held", "[plan]") {
  MemoryTracker log;
  log.take(10);
  const std::int64_t estimated = log.next_piece();
  REQUIRE(log.take(100) == estimated);
  const std::int64_t moment = log.highest(0, log.now());
  CHECK(log.is_held(estimated, moment));
  log.give_back(estimated);
  log.take(20);
  log.resize(estimated, 5);
  CHECK(log.peak(0, log.now()).held.total() == 30);
  CHECK_FALSE(log.is_held(estimated, log.highest(0, log.now())));
  CHECK(log.held_now() == 30);
  log.resize(estimated, 25);
  CHECK(log.peak(0, log.now()).held.total() == 35);
}

TEST_CASE("a timeline has the highest moment of each stretch", "[plan]") {
  MemoryTracker log;
  for (int i = 0; i < 100; ++i) {
    const std::int64_t piece = log.take(i == 50 ? 1000 : 10);
    log.give_back(piece);
  }
  const std::vector<TimelinePoint> curve = log.timeline(0, log.now(), 10);
  CHECK(curve.size() <= 11);
  std::int64_t most = 0;
  for (const TimelinePoint& point : curve) most = std::max(most, point.held_bytes);
  CHECK(most == 1000);
}

}  // namespace trainctl::plan
