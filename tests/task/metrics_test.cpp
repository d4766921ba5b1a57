// Expected values are scikit-learn's and scipy's, or by hand where they are that short.
#include <catch2/catch.hpp>

#include "task/class_counts.h"
#include "task/correlation.h"
#include "task/spans.h"

namespace trainctl::task::metrics_test {
namespace {

ClassCounts count(const std::vector<std::int64_t>& labels, const std::vector<std::int64_t>& predicted,
                  std::size_t num_classes) {
  const std::vector<std::int64_t> none(num_classes, 0);
  ClassCounts counts{none, none, none};
  for (std::size_t i = 0; i < labels.size(); ++i) {
    ++counts.labeled[static_cast<std::size_t>(labels[i])];
    ++counts.predicted[static_cast<std::size_t>(predicted[i])];
    if (labels[i] == predicted[i]) ++counts.hits[static_cast<std::size_t>(labels[i])];
  }
  return counts;
}

TEST_CASE("F1 and Matthews' coefficient are scikit-learn's", "[task]") {
  const ClassCounts binary = count({0, 1, 1, 1, 0, 1, 0, 0, 1, 1}, {0, 1, 0, 1, 1, 1, 0, 1, 1, 0}, 2);
  CHECK(f1_of(binary, 1) == Approx(2.0 / 3));
  CHECK(macro_f1(binary) == Approx((2.0 / 3 + 0.5) / 2));
  CHECK(matthews(binary) == Approx((4.0 * 2 - 2 * 2) / std::sqrt(6.0 * 6 * 4 * 4)));
  const ClassCounts several = count({0, 1, 2, 2, 1, 0, 2}, {0, 2, 2, 2, 1, 1, 0}, 4);  // class 3 never occurs
  CHECK(macro_f1(several) == Approx((0.5 + 0.5 + 2.0 / 3) / 3));
  CHECK(matthews(several) == Approx((4.0 * 7 - (2 * 2 + 2 * 2 + 3 * 3)) / (49 - 17)));
}

TEST_CASE("a class that is always predicted has no Matthews' coefficient", "[task]") {
  CHECK(matthews(count({0, 1, 1}, {1, 1, 1}, 2)) == 0);
  CHECK(f1_of(count({0, 0}, {0, 0}, 2), 1) == 0);
}

TEST_CASE("correlations are scipy's, with ties", "[task]") {
  const std::vector<double> a{1, 2, 2, 4, 5};
  const std::vector<double> b{2, 1, 4, 4, 9};
  CHECK(pearson(a, b) == Approx(0.8391609102).epsilon(1e-9));
  CHECK(spearman(a, b) == Approx(0.7631578947).epsilon(1e-9));
  CHECK(spearman(a, {{10, 20, 20, 40, 50}}) == Approx(1));
  CHECK(pearson(a, {{3, 3, 3, 3, 3}}) == 0);
  CHECK(std::isnan(spearman(a, {{1, 2, NAN, 3, 4}})));
}

TEST_CASE("spans are found as conlleval finds them", "[task]") {
  const std::vector<Tag> tags = *as_tags({"O", "B-PER", "I-PER", "B-LOC", "I-LOC"});
  const auto spans = [&](std::vector<std::int64_t> classes) { return spans_of(classes, tags); };
  CHECK(spans({0, 1, 2, 0, 3}) == std::vector<TokenSpan>{{1, 3, "PER"}, {4, 5, "LOC"}});
  CHECK(spans({1, 1, 2}) == std::vector<TokenSpan>{{0, 1, "PER"}, {1, 3, "PER"}});  // B- begins anew
  CHECK(spans({2, 2, 4}) == std::vector<TokenSpan>{{0, 2, "PER"}, {2, 3, "LOC"}});  // I- alone begins, too
  CHECK(spans({2, 0, 2}) == std::vector<TokenSpan>{{0, 1, "PER"}, {2, 3, "PER"}});
  CHECK(spans({0, 0}).empty());
}

TEST_CASE("classes that aren't all tags have no spans", "[task]") {
  CHECK_FALSE(as_tags({"O", "noun"}));
  CHECK_FALSE(as_tags({}));
}

}  // namespace
}  // namespace trainctl::task::metrics_test
