#include "train/run/best.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "support/map_state.h"

namespace trainctl::train {

using namespace testing;

TEST_CASE("the best evaluation is kept by its metric and order, and never one that isn't finite", "[train]") {
  BestEvaluation best(checkpoint::BestConfig{.metric = "accuracy", .mode = checkpoint::MetricOrder::max});
  CHECK(best.observe({{"loss", 1.0}, {"accuracy", 0.5}}, 10));
  CHECK_FALSE(best.observe({{"loss", 0.5}, {"accuracy", 0.5}}, 20));
  CHECK_FALSE(best.observe({{"loss", 0.5}, {"accuracy", std::numeric_limits<double>::quiet_NaN()}}, 30));
  CHECK(best.observe({{"loss", 2.0}, {"accuracy", 0.6}}, 40));
  CHECK(best.step() == 40);

  BestEvaluation lowest_loss(std::nullopt);
  CHECK(lowest_loss.observe({{"loss", 1.0}, {"accuracy", 0.5}}, 1));
  CHECK_FALSE(lowest_loss.observe({{"loss", 1.5}, {"accuracy", 0.9}}, 2));
}

TEST_CASE("a resumed run remembers the best evaluation exactly", "[train]") {
  BestEvaluation best(checkpoint::BestConfig{});
  best.observe({{"loss", 0.1 + 0.2}, {"accuracy", 1.0 / 3}}, 7);
  MapState state = MapState::of(best);
  BestEvaluation resumed(checkpoint::BestConfig{});
  state.restore_into(resumed);
  CHECK(resumed.metrics() == task::Metrics{{"loss", 0.1 + 0.2}, {"accuracy", 1.0 / 3}});
  CHECK(resumed.step() == 7);
  CHECK_FALSE(resumed.observe({{"loss", 0.1}, {"accuracy", 1.0 / 3}}, 8));
  CHECK(resumed.observe({{"loss", 0.9}, {"accuracy", std::nextafter(1.0 / 3, 1.0)}}, 9));
}

}  // namespace trainctl::train
