// Who is waited for, and how long ranks communicate.
#include "train/monitor/straggler_monitor.h"

#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>
#include <thread>

#include "train/run/replicas.h"

namespace trainctl::train {

TEST_CASE("the rank whose own time is much longer than the median's is named, with its data where that is why",
          "[train][dist]") {
  std::vector<RankTime> ranks(4, RankTime{.own_ms = 100});
  CHECK_FALSE(find_straggler(ranks));
  ranks[2].own_ms = 119;
  CHECK_FALSE(find_straggler(ranks));
  ranks[2].own_ms = 150;
  const std::optional<Straggler> slow = find_straggler(ranks);
  REQUIRE(slow);
  CHECK(slow->rank == 2);
  CHECK_THAT(slow->text, Catch::StartsWith("rank 2 is slow") && !Catch::Contains("data"));
  ranks[2].data_wait_ms = 45;
  CHECK_THAT(find_straggler(ranks)->text, Catch::Contains("for data"));
}

TEST_CASE("of two ranks the slower is named; differences too small to matter, and a process alone, aren't",
          "[train][dist]") {
  CHECK(find_straggler({{.own_ms = 100}, {.own_ms = 130}})->rank == 1);
  CHECK_FALSE(find_straggler({{.own_ms = 1}, {.own_ms = 2}}));
  CHECK_FALSE(find_straggler({{.own_ms = 100}}));
}

TEST_CASE("a process alone has no communication", "[train]") {
  const std::unique_ptr<comm::Group> group = comm::alone();
  StragglerMonitor watch(*group);
  const StragglerMonitor::Window window = watch.take_window({.step_ms = 10, .total_ms = 100});
  CHECK(window.communication_ms == 0);
  CHECK_FALSE(window.straggler);
}

}  // namespace trainctl::train
