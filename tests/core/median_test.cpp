#include "core/median.h"

#include <catch2/catch.hpp>

using namespace trainctl;
using namespace trainctl::core;

TEST_CASE("the median is the value in the middle, or the mean of the two there", "[core]") {
  CHECK(median({3}) == 3);
  CHECK(median({9, 1, 5}) == 5);
  CHECK(median({4, 1, 100, 2}) == 3);
}
