#include "dataset/sampler/split.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "core/error.h"
#include "runtime/random.h"

namespace trainctl::dataset::split_test {

using namespace trainctl;
using namespace trainctl::dataset;
using Catch::Matchers::Contains;

namespace {

std::vector<std::uint64_t> hashes_of(std::uint64_t count) {
  std::vector<std::uint64_t> hashes;
  for (std::uint64_t i = 0; i < count; ++i) hashes.push_back(runtime::mix(7, runtime::key_of("test"), i));
  return hashes;
}

/// Three classes of 61, 31 and 8 samples in a hundred.
std::vector<std::int64_t> labels_of(std::int64_t count) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(i % 100 < 61 ? 0 : i % 100 < 92 ? 1 : 2);
  return labels;
}

bool is_partition(const DividedSamples& parts, std::int64_t count) {
  std::vector<std::int64_t> all = parts.train;
  all.insert(all.end(), parts.eval.begin(), parts.eval.end());
  all.insert(all.end(), parts.test.begin(), parts.test.end());
  std::sort(all.begin(), all.end());
  std::vector<std::int64_t> expected(static_cast<std::size_t>(count));
  std::iota(expected.begin(), expected.end(), std::int64_t{0});
  return all == expected;
}

std::map<std::int64_t, int> classes_of(const std::vector<std::int64_t>& part, const std::vector<std::int64_t>& labels) {
  std::map<std::int64_t, int> counts;
  for (const std::int64_t i : part) ++counts[labels[static_cast<std::size_t>(i)]];
  return counts;
}

}  // namespace

TEST_CASE("shares for evaluation and test are apart, and more data or another share moves no sample", "[dataset]") {
  const std::vector<std::uint64_t> hashes = hashes_of(2000);
  const Split both{.eval_fraction = 0.2, .test_fraction = 0.1};
  const DividedSamples parts = divide(hashes, {}, both, "row");
  CHECK(is_partition(parts, 2000));
  CHECK((parts.eval.size() > 340 && parts.eval.size() < 460));
  CHECK((parts.test.size() > 150 && parts.test.size() < 250));
  CHECK(divide(hashes, {}, {.eval_fraction = 0.2}, "row").eval == parts.eval);
  CHECK(divide(hashes, {}, {.test_fraction = 0.1}, "row").test == parts.test);
  const DividedSamples more = divide(hashes_of(3000), {}, both, "row");
  CHECK(std::includes(more.eval.begin(), more.eval.end(), parts.eval.begin(), parts.eval.end()));
  CHECK(std::includes(more.test.begin(), more.test.end(), parts.test.begin(), parts.test.end()));
  CHECK(divide(hashes, {}, {.eval_fraction = 0.2, .seed = 1}, "row").eval != parts.eval);
}

TEST_CASE("each sample is in one fold, and every fold has its share of each class", "[dataset]") {
  constexpr std::int64_t kCount = 503;
  const std::vector<std::uint64_t> hashes = hashes_of(kCount);
  const std::vector<std::int64_t> labels = labels_of(kCount);
  const std::map<std::int64_t, int> all = classes_of(divide(hashes, labels, {}, "row").train, labels);
  for (const std::int64_t folds : {2, 5, 7}) {
    std::vector<std::int64_t> held_out;
    for (std::int64_t index = 0; index < folds; ++index) {
      const DividedSamples parts = divide(hashes, labels, {.fold = FoldConfig{.count = folds, .index = index}}, "row");
      CHECK(is_partition(parts, kCount));
      const auto size = static_cast<std::int64_t>(parts.eval.size());
      CHECK((size == kCount / folds || size == kCount / folds + 1));
      std::map<std::int64_t, int> counts = classes_of(parts.eval, labels);
      for (const auto& [label, count] : all)
        CHECK((counts[label] == count / folds || counts[label] == count / folds + 1));
      held_out.insert(held_out.end(), parts.eval.begin(), parts.eval.end());
    }
    std::sort(held_out.begin(), held_out.end());
    CHECK(std::adjacent_find(held_out.begin(), held_out.end()) == held_out.end());
    CHECK(held_out.size() == kCount);
  }
}

TEST_CASE("folds leave the test share alone", "[dataset]") {
  const std::vector<std::uint64_t> hashes = hashes_of(400);
  const std::vector<std::int64_t> labels = labels_of(400);
  const std::vector<std::int64_t> test = divide(hashes, labels, {.test_fraction = 0.25}, "row").test;
  for (const std::int64_t index : {0, 1, 2}) {
    const FoldConfig fold{.count = 3, .index = index};
    const DividedSamples parts = divide(hashes, labels, {.test_fraction = 0.25, .fold = fold}, "row");
    CHECK(parts.test == test);
    CHECK(is_partition(parts, 400));
  }
}

TEST_CASE("each share of few different samples has one, and equal samples stay together", "[dataset][regression]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const double fraction : {1e-9, 0.4, 0.99})
      for (const std::uint64_t num_different : {3, 4, 7}) {
        const Split split{.eval_fraction = fraction, .test_fraction = 0.005, .seed = seed};
        std::vector<std::uint64_t> hashes = hashes_of(num_different);
        const std::vector<std::uint64_t> once = hashes;
        hashes.insert(hashes.end(), once.begin(), once.end());
        const DividedSamples parts = divide(hashes, {}, split, "row");
        CHECK(is_partition(parts, std::ssize(hashes)));
        for (const std::vector<std::int64_t>* part : {&parts.train, &parts.eval, &parts.test}) {
          CHECK_FALSE(part->empty());
          for (const std::int64_t i : *part)
            CHECK(std::count(part->begin(), part->end(), (i + std::ssize(once)) % std::ssize(hashes)) == 1);
        }
      }
}

TEST_CASE("a part without samples is refused by its key", "[dataset]") {
  const std::vector<std::uint64_t> hashes = hashes_of(3);
  const std::vector<std::uint64_t> equal(3, hashes.front());
  CHECK_THROWS_WITH(divide(equal, {}, {.eval_fraction = 1e-9}, "image"),
                    Contains("dataset.eval_fraction leaves no image for evaluation, of 3"));
  CHECK_THROWS_WITH(divide(equal, {}, {.test_fraction = 1e-9}, "row"),
                    Contains("dataset.test_fraction leaves no row for tests, of 3"));
  CHECK_THROWS_WITH(divide(hashes, {}, {.fold = FoldConfig{.count = 5, .index = 4}}, "row"),
                    Contains("dataset.fold leaves no row for evaluation, of 3"));
}

}  // namespace trainctl::dataset::split_test
