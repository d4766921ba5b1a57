#include "train/run/early_stopping.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace trainctl::train {
namespace {

/// Returns the number of evaluations after which the run ends; 0 if it doesn't.
int evaluations_until_over(const EarlyStoppingConfig& config, const std::vector<double>& values) {
  EarlyStopping stopping(config);
  for (std::size_t i = 0; i < values.size(); ++i) {
    stopping.observe({{"loss", values[i]}});
    if (stopping.is_over()) return static_cast<int>(i) + 1;
  }
  return 0;
}

TEST_CASE("early stopping counts evaluations without an improvement", "[train]") {
  CHECK(evaluations_until_over({.patience = 2}, {3, 2, 2, 1, 1.5, 1.2, 0.1}) == 6);
  CHECK(evaluations_until_over({.patience = 2}, {3, 2, 2, 1, 1.5, 0.9}) == 0);
  CHECK(evaluations_until_over({.patience = 2, .mode = checkpoint::MetricOrder::max}, {1, 2, 2, 3, 1, 2}) == 6);
  CHECK(evaluations_until_over({.patience = 1, .min_delta = 0.5}, {3, 2.4, 2}) == 3);
  CHECK(evaluations_until_over({.patience = 2}, {std::nan(""), std::nan("")}) == 2);
}

TEST_CASE("early stopping says why", "[train]") {
  EarlyStopping stopping({.patience = 1});
  stopping.observe({{"loss", 0.25}});
  stopping.observe({{"loss", 0.5}});
  CHECK(stopping.reason() == "no better loss in 1 evaluations; the best was 0.25");
}

}  // namespace
}  // namespace trainctl::train
