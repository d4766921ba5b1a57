#include "inference/sampling.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "core/error.h"
#include "runtime/random.h"

namespace trainctl::inference {
namespace {

const std::vector<float> kLogits{std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};

/// How often each token is drawn, in shares of many draws spread evenly.
std::map<std::int64_t, double> shares(const std::vector<float>& logits, const Sampling& sampling) {
  constexpr int kDraws = 10000;
  std::map<std::int64_t, double> drawn;
  for (int i = 0; i < kDraws; ++i) drawn[sample(logits, sampling, (i + 0.5) / kDraws)] += 1.0 / kDraws;
  return drawn;
}

void check_shares(const std::map<std::int64_t, double>& drawn, const std::map<std::int64_t, double>& expected) {
  CHECK(drawn.size() == expected.size());
  for (const auto& [id, share] : expected) {
    REQUIRE(drawn.contains(id));
    CHECK(drawn.at(id) == Approx(share).margin(2e-4));
  }
}

TEST_CASE("tokens are drawn with their probabilities", "[inference]") {
  check_shares(shares(kLogits, {}), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
}

TEST_CASE("temperature sharpens and flattens", "[inference]") {
  const double sum = 0.01 + 0.16 + 0.04 + 0.09;
  check_shares(shares(kLogits, {.temperature = 0.5}),
               {{0, 0.01 / sum}, {1, 0.16 / sum}, {2, 0.04 / sum}, {3, 0.09 / sum}});
  check_shares(shares(kLogits, {.temperature = 1e6}), {{0, 0.25}, {1, 0.25}, {2, 0.25}, {3, 0.25}});
  check_shares(shares(kLogits, {.temperature = 1e-300}), {{1, 1}});
}

TEST_CASE("greedy takes the likeliest, the first of equals", "[inference]") {
  check_shares(shares(kLogits, {.temperature = 0}), {{1, 1}});
  CHECK(sample(std::vector<float>{1, 3, 3, 2}, {.temperature = 0}, 0.99) == 1);
}

TEST_CASE("top-k leaves the k likeliest", "[inference]") {
  check_shares(shares(kLogits, {.top_k = 1}), {{1, 1}});
  check_shares(shares(kLogits, {.top_k = 2}), {{1, 4.0 / 7}, {3, 3.0 / 7}});
  check_shares(shares(kLogits, {.top_k = 9}), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
}

TEST_CASE("top-p leaves the fewest that reach it, one at least, of what top-k left", "[inference]") {
  check_shares(shares(kLogits, {.top_p = 0.6}), {{1, 4.0 / 7}, {3, 3.0 / 7}});
  check_shares(shares(kLogits, {.top_p = 0.0}), {{1, 1}});
  check_shares(shares(kLogits, {.top_p = 0.85}), {{1, 4.0 / 9}, {3, 3.0 / 9}, {2, 2.0 / 9}});
  check_shares(shares(kLogits, {.top_k = 3, .top_p = 0.5}), {{1, 4.0 / 7}, {3, 3.0 / 7}});
}

TEST_CASE("logits that aren't numbers are never drawn", "[inference]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  check_shares(shares({nan, 0, -infinity, 0}, {}), {{1, 0.5}, {3, 0.5}});
  check_shares(shares({0, infinity, 5}, {}), {{1, 1}});
  CHECK_THROWS_AS(sample(std::vector<float>{nan, nan}, {}, 0.5), core::Error);
  CHECK_THROWS_AS(sample(std::vector<float>{}, {}, 0.5), core::Error);
}

}  // namespace
}  // namespace trainctl::inference
