#include "dataset/sampler/sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <vector>

namespace trainctl::dataset::sampler_test {

using namespace trainctl;
using namespace trainctl::dataset;

namespace {

std::vector<std::int64_t> indices(const Order& order) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(order.size()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = order(static_cast<std::int64_t>(i));
  return all;
}

bool is_permutation_of_range(std::vector<std::int64_t> all) {
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

}  // namespace

TEST_CASE("an order visits every index once, whatever the size", "[dataset]") {
  for (std::int64_t size = 1; size <= 5000; size += size < 300 ? 1 : 97) {
    INFO("size " << size);
    REQUIRE(is_permutation_of_range(indices(Order(7, size % 5, size))));
  }
  for (const std::int64_t size : {65535, 65536, 65537, 1000003})
    CHECK(is_permutation_of_range(indices(Order(7, 0, size))));
}

TEST_CASE("an order of a huge set stays inside it and doesn't repeat", "[dataset]") {
  const std::int64_t size = (std::int64_t{1} << 40) + 12345;
  const Order order(1, 2, size);
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 20000; ++i) {
    const std::int64_t index = order(size - 1 - i);
    REQUIRE((index >= 0 && index < size));
    seen.insert(index);
  }
  CHECK(seen.size() == 20000);
}

TEST_CASE("an order without a seed is in order", "[dataset]") {
  const Order order(100);
  for (std::int64_t i = 0; i < 100; ++i) CHECK(order(i) == i);
}

TEST_CASE("orders differ by epoch and by seed, and repeat for the same", "[dataset]") {
  const auto first = indices(Order(1, 0, 1000));
  CHECK(first == indices(Order(1, 0, 1000)));
  for (const auto& other : {indices(Order(1, 1, 1000)), indices(Order(2, 0, 1000))}) {
    int same = 0;
    for (std::size_t i = 0; i < first.size(); ++i) same += first[i] == other[i] ? 1 : 0;
    CHECK(same < 10);  // one is expected
  }
}

TEST_CASE("over many epochs every index comes to every position equally often", "[dataset]") {
  for (const std::int64_t size : {3, 7, 10, 16, 33}) {
    constexpr int kEpochs = 20000;
    std::vector<int> counts(static_cast<std::size_t>(size * size));
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      const Order order(5, epoch, size);
      for (std::int64_t i = 0; i < size; ++i) ++counts[static_cast<std::size_t>(i * size + order(i))];
    }
    const double expected = static_cast<double>(kEpochs) / static_cast<double>(size);
    double chi_square = 0;
    for (const int count : counts) chi_square += (count - expected) * (count - expected) / expected;
    const auto freedom = static_cast<double>((size - 1) * (size - 1));
    INFO("size " << size << ", chi-square " << chi_square << " for " << freedom << " degrees of freedom");
    CHECK(chi_square < freedom + 5 * std::sqrt(2 * freedom) + 5);
  }
}

TEST_CASE("neighbours in an order have nothing to do with each other", "[dataset]") {
  constexpr std::int64_t kSize = 60000;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const auto all = indices(Order(3, epoch, kSize));
    const double mean = (kSize - 1) / 2.0;
    const double variance = static_cast<double>(kSize) * kSize / 12.0;
    for (const std::size_t lag : {1, 2, 16, 128, 256}) {
      double covariance = 0;
      for (std::size_t i = 0; i + lag < all.size(); ++i)
        covariance += (static_cast<double>(all[i]) - mean) * (static_cast<double>(all[i + lag]) - mean);
      const double correlation = covariance / static_cast<double>(kSize) / variance;
      INFO("epoch " << epoch << ", lag " << lag);
      CHECK(std::abs(correlation) < 5 / std::sqrt(static_cast<double>(kSize)));
    }
  }
}

TEST_CASE("a balanced order draws each class equally often, and is a function of seed and position", "[dataset]") {
  std::vector<std::int64_t> labels(10'000, 0);
  for (std::size_t i = 0; i < 100; ++i) labels[i * 7] = 2;  // class 1 has no samples
  const auto epoch = make_balanced_order(labels, 3)->epoch(1);
  std::int64_t rare = 0;
  std::set<std::int64_t> keys;
  std::vector<int> drawn(labels.size());
  for (std::int64_t position = 0; position < 10'000; ++position) {
    const SampleKey key = epoch->at(position);
    REQUIRE((key.index >= 0 && key.index < 10'000));
    rare += labels[static_cast<std::size_t>(key.index)] == 2 ? 1 : 0;
    keys.insert(key.epoch);
    ++drawn[static_cast<std::size_t>(key.index)];
  }
  CHECK(std::abs(static_cast<double>(rare) - 5000) < 5 * 50);      // five standard deviations
  CHECK(keys.size() == 10'000);                                    // a sample that comes again is augmented anew
  for (std::size_t i = 0; i < 100; ++i) CHECK(drawn[i * 7] > 15);  // 50 each on average
  CHECK(make_balanced_order(labels, 3)->epoch(1)->at(77) == epoch->at(77));
  CHECK_FALSE(make_balanced_order(labels, 4)->epoch(1)->at(77).index == epoch->at(77).index);
  const auto next = make_balanced_order(labels, 3)->epoch(2);
  std::int64_t same = 0;
  for (std::int64_t position = 0; position < 10'000; ++position)
    same += next->at(position).index == epoch->at(position).index ? 1 : 0;
  CHECK(same < 500);  // by chance some: a class of 100 samples is half of the draws
}

}  // namespace trainctl::dataset::sampler_test
