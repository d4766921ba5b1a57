#include "distributed/pipeline_stages.h"

#include <catch2/catch.hpp>
#include <numeric>

namespace trainctl::distributed {
namespace {

std::vector<std::size_t> sizes(const std::vector<double>& costs, const std::vector<std::int64_t>& ranks) {
  std::vector<std::size_t> sizes;
  std::size_t end = 0;
  for (const model::BlockRange& range : split_by_cost(costs, ranks)) {
    CHECK(range.begin == end);
    CHECK(range.end > range.begin);
    end = range.end;
    sizes.push_back(range.end - range.begin);
  }
  CHECK(end == costs.size());
  return sizes;
}

using Sizes = std::vector<std::size_t>;

TEST_CASE("the dearest stage is as cheap as can be", "[distributed][pipeline]") {
  CHECK(sizes({1, 1, 1, 1}, {0, 1}) == Sizes{2, 2});
  CHECK(sizes({0, 1, 1, 1, 1, 1, 1, 2}, {0, 1}) == Sizes{5, 3});  // embeddings cost nothing, and the head two blocks
  CHECK(sizes({5, 1, 1, 1}, {0, 1, 2}) == Sizes{1, 1, 2});
  CHECK(sizes({1, 1, 1}, {0, 1, 2}) == Sizes{1, 1, 1});
}

TEST_CASE("ranks with several stages have about equal sums", "[distributed][pipeline]") {
  const std::vector<double> costs{0, 1, 1, 1, 1, 1, 1, 0.1};
  for (const std::vector<std::int64_t>& ranks : {std::vector<std::int64_t>{0, 1, 1, 0}, {0, 1, 0, 1}}) {
    std::vector<double> loads(2);
    const std::vector<model::BlockRange> ranges = split_by_cost(costs, ranks);
    for (std::size_t s = 0; s < ranks.size(); ++s)
      loads[static_cast<std::size_t>(ranks[s])] +=
          std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(ranges[s].begin),
                          costs.begin() + static_cast<std::ptrdiff_t>(ranges[s].end), 0.0);
    CHECK(std::max(loads[0], loads[1]) == Approx(3.1));
  }
}

TEST_CASE("as many stages as blocks have one each", "[distributed][pipeline]") {
  CHECK(sizes({3, 1, 4, 1}, {0, 1, 1, 0}) == Sizes{1, 1, 1, 1});
}

}  // namespace
}  // namespace trainctl::distributed
