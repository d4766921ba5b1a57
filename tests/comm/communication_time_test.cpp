// How long collectives were under way, as a flight recorder counts it.
#include <catch2/catch.hpp>

#include "comm/health/flight_recorder.h"
#include "support/manual_clock.h"

using namespace trainctl;
using namespace trainctl::comm;
using namespace std::chrono_literals;

TEST_CASE("time is counted once where collectives overlap, and not between them", "[comm]") {
  testing::ManualClock clock;
  FlightRecorder recorder(clock.now());
  const std::uint64_t first = recorder.begin("all ranks", "all_reduce", 8);
  clock.advance(4ms);
  const std::uint64_t second = recorder.begin("all ranks", "all_reduce", 8);
  clock.advance(4ms);
  recorder.done(first);
  clock.advance(4ms);
  recorder.failed(second, "the wire was cut");
  clock.advance(4ms);
  const CommunicationTime time = recorder.take_time();
  CHECK(time.busy_ms == Approx(12));
  CHECK(time.exposed_ms == 0);
  CHECK(recorder.take_time().busy_ms == 0);
}

TEST_CASE("what is under way is split between windows, and waits are exposed", "[comm]") {
  testing::ManualClock clock;
  FlightRecorder recorder(clock.now());
  const std::uint64_t ticket = recorder.begin("all ranks", "all_gather", 8);
  clock.advance(3ms);
  CHECK(recorder.take_time().busy_ms == Approx(3));
  clock.advance(4ms);
  recorder.waited_since_last_begin();
  recorder.done(ticket);
  recorder.waited(5ms);
  const CommunicationTime time = recorder.take_time();
  CHECK(time.busy_ms == Approx(4));
  CHECK(time.exposed_ms == Approx(3 + 4 + 5));
}

TEST_CASE("a collective under way is kept, however many end after its start", "[comm][regression]") {
  testing::ManualClock clock;
  FlightRecorder recorder(clock.now());
  const std::uint64_t old = recorder.begin("all ranks", "broadcast", 8);
  std::string given_up;
  recorder.when_overdue(old, [&](const std::string& reason) { given_up = reason; });
  for (int i = 0; i < 1000; ++i) recorder.done(recorder.begin("node 0", "all_reduce", 8));
  clock.advance(1ms);
  CHECK(recorder.any_under_way());
  CHECK(recorder.text().find("broadcast #1 of all ranks") != std::string::npos);
  CHECK(recorder.fail_overdue(0ms));
  CHECK(given_up.find("timed out") != std::string::npos);
  REQUIRE(recorder.first_failure());
  CHECK(recorder.first_failure()->operation == "broadcast");
  recorder.failed(old, given_up);
  CHECK(recorder.take_time().busy_ms == Approx(1));
}
