#include "profiler/record/schedule.h"

#include <catch2/catch.hpp>
#include <string>

namespace trainctl::profiler {
namespace {

/// One letter a step: idle, warm-up, active.
std::string phases(const ProfilerConfig& config, std::int64_t num_steps) {
  std::string letters;
  for (std::int64_t step = 0; step < num_steps; ++step)
    letters += ".wA"[static_cast<std::size_t>(phase_of(config, step))];
  return letters;
}

TEST_CASE("steps wait, warm up and are kept, cycle after cycle", "[profiler]") {
  const ProfilerConfig config{.wait = 2, .warmup = 1, .active = 3, .repeat = 2};
  CHECK(phases(config, 15) == "..wAAA..wAAA...");
  CHECK(num_profiled_steps(config) == 12);
  CHECK(ends_cycle(config, 5));
  CHECK(ends_cycle(config, 11));
  CHECK_FALSE(ends_cycle(config, 4));
  CHECK_FALSE(ends_cycle(config, 6));
}

TEST_CASE("waiting and warm-up may be left out", "[profiler]") {
  CHECK(phases({.wait = 0, .warmup = 0, .active = 1, .repeat = 3}, 5) == "AAA..");
  CHECK(phases({.wait = 1, .warmup = 0, .active = 2, .repeat = 1}, 5) == ".AA..");
  CHECK(phases({.wait = 0, .warmup = 2, .active = 1, .repeat = 1}, 5) == "wwA..");
}

}  // namespace
}  // namespace trainctl::profiler
