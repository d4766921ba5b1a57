// How long collectives were under way, as a journal counts it.
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "comm/health/flight_recorder.h"

using namespace trainctl;
using namespace trainctl::comm;

namespace {

void pass(std::int64_t ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

}  // namespace

TEST_CASE("time is counted once where collectives overlap, and not between them", "[comm]") {
  FlightRecorder journal;
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t first = journal.begin("all ranks", "all_reduce", 8);
  pass(4);
  const std::uint64_t second = journal.begin("all ranks", "all_reduce", 8);
  pass(4);
  journal.done(first);
  pass(4);
  journal.failed(second, "the wire was cut");
  const double under_way = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  pass(4);
  const CommunicationTime time = journal.take_time();
  CHECK(time.busy_ms >= 12);
  CHECK(time.busy_ms <= under_way);
  CHECK(time.exposed_ms == 0);
  CHECK(journal.take_time().busy_ms == 0);
}

TEST_CASE("what is under way is split between windows, and waits are exposed", "[comm]") {
  FlightRecorder journal;
  const std::uint64_t ticket = journal.begin("all ranks", "all_gather", 8);
  pass(3);
  CHECK(journal.take_time().busy_ms >= 3);
  pass(3);
  journal.waited_since_last_begin();
  journal.done(ticket);
  journal.waited(std::chrono::milliseconds(5));
  const CommunicationTime time = journal.take_time();
  CHECK(time.busy_ms >= 3);
  CHECK(time.exposed_ms >= 6 + 5);
}

TEST_CASE("collectives that the ring has forgotten still end", "[comm]") {
  FlightRecorder journal;
  const std::uint64_t old = journal.begin("all ranks", "broadcast", 8);
  for (int i = 0; i < 1000; ++i) journal.done(journal.begin("all ranks", "all_reduce", 8));
  journal.done(old);
  journal.take_time();
  pass(2);
  CHECK(journal.take_time().busy_ms == 0);
}
