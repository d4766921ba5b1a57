#include "task/metric.h"

#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>
#include <cmath>

namespace trainctl::task::metric_test {
namespace {

TEST_CASE("brier_score is the mean squared distance of probabilities and label", "[task]") {
  ExtraMetrics metrics({BrierScoreConfig{}});
  // Probabilities (0.8, 0.2) with label 0, and (0.5, 0.5) with label 1.
  const at::Tensor logits = at::tensor({std::log(0.8), std::log(0.2), 1.0, 1.0}, at::kDouble).view({2, 2});
  metrics.add({.inputs = logits, .targets = at::tensor({0, 1}, at::kLong)}, logits);
  Metrics told{{"loss", 1}};
  metrics.append_to(told);
  REQUIRE(told.size() == 2);
  CHECK(told[1].first == "brier_score");
  CHECK(told[1].second == Approx((2 * 0.2 * 0.2 + 2 * 0.5 * 0.5) / 2).epsilon(1e-12));
}

TEST_CASE("brier_score of pixels leaves out those without a class", "[task]") {
  ExtraMetrics metrics({BrierScoreConfig{}});
  const at::Tensor logits = at::tensor({0.0, 0.0, std::log(3.0), 5.0}, at::kDouble).view({1, 2, 1, 2});
  metrics.add({.inputs = logits, .targets = at::tensor({1, -100}, at::kLong).view({1, 1, 2})}, logits);
  Metrics told{{"loss", 1}};
  metrics.append_to(told);
  CHECK(told[1].second == Approx(2 * 0.25 * 0.25).epsilon(1e-12));  // probabilities 1/4 and 3/4
}

TEST_CASE("without samples there are no metrics beside the task's either", "[task]") {
  ExtraMetrics metrics({BrierScoreConfig{}});
  Metrics none;
  metrics.append_to(none);
  CHECK(none.empty());
}

}  // namespace
}  // namespace trainctl::task::metric_test
