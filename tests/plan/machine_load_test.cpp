#include "plan/time/machine_load.h"

#include <catch2/catch.hpp>

namespace trainctl::plan {

TEST_CASE("The share that others took is what threads waited and the hypervisor stole, of the time", "[plan]") {
  const LoadCounters begin{.ran_s = 100, .waited_s = 7, .stolen_s = 3};
  CHECK(taken_share(begin, {.ran_s = 110, .waited_s = 7, .stolen_s = 3}) == 0);
  CHECK(taken_share(begin, {.ran_s = 108.5, .waited_s = 8, .stolen_s = 3.5}) == Approx(0.15));
  CHECK(taken_share(begin, {.ran_s = 100, .waited_s = 90, .stolen_s = 3}) == 1);
  CHECK(taken_share(begin, begin) == 0);
}

TEST_CASE("The system's counters never go back", "[plan]") {
  const LoadCounters begin = read_load_counters();
  const LoadCounters end = read_load_counters();
  CHECK(begin.ran_s > 0);
  CHECK(end.ran_s >= begin.ran_s);
  CHECK(end.waited_s >= begin.waited_s);
  CHECK(end.stolen_s >= begin.stolen_s);
}

}  // namespace trainctl::plan
