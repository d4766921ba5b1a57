#include "runtime/span_log.h"

#include <catch2/catch.hpp>

#include "runtime/span.h"

namespace trainctl::runtime {

TEST_CASE("the innermost Span that is open is told, and those that ended last", "[runtime]") {
  const SpanLog log;
  CHECK_FALSE(log.innermost());
  const Span outer("forward");
  { const Span inner("hidden"); }
  REQUIRE(log.innermost());
  CHECK(log.innermost()->name == "forward");
  CHECK_THAT(log.text(), Catch::Contains("in forward for") && Catch::Contains("hidden took"));
}

TEST_CASE("a collective that ends after its caller's Spans ends no other one", "[runtime][regression]") {
  const SpanLog log;
  at::RecordFunction collective(at::RecordScope::USER_SCOPE);  // as c10d's backends record theirs
  collective._setAsync();
  {
    const Span backward("backward");
    collective.before("gloo:all_reduce");
  }
  const Span data("data");
  collective.end();
  REQUIRE(log.innermost());
  CHECK(log.innermost()->name == "data");
  CHECK_THAT(log.text(), Catch::Contains("in data for") && Catch::Contains("gloo:all_reduce took") &&
                             Catch::Contains("backward took") && !Catch::Contains("in backward"));
}

}  // namespace trainctl::runtime
