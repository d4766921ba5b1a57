#include "replay/trace.h"

#include <catch2/catch.hpp>

#include "core/error.h"

namespace trainctl::replay {
namespace {

RankTrace trace_with(double before, double after) {
  return {.rank = 2,
          .communications = {{.kind = Collective::send, .axes = "pipeline", .bytes = 12, .members = {2, 0}},
                             {.kind = Collective::reduce_scatter, .axes = "world", .bytes = 8, .members = {0, 1, 2}}},
          .events = {{.compute_s = before, .waits = false, .communication = 0},
                     {.compute_s = 0.5, .waits = false, .communication = 1},
                     {.compute_s = 0, .waits = true, .communication = 1}},
          .compute_s_after = after,
          .receipts_queue = true};
}

TEST_CASE("traces are read as they were written", "[replay]") {
  const std::vector<RankTrace> traces{trace_with(0.25, 1), {.rank = 3}};
  CHECK(read_traces(format_traces(traces)) == traces);
  CHECK(read_traces("[]").empty());
}

TEST_CASE("a text that is no list of traces is refused", "[replay]") {
  const std::string text = format_traces({trace_with(0, 0)});
  for (std::size_t size = 0; size < text.size(); ++size)
    CHECK_THROWS_AS(read_traces(text.substr(0, size)), core::Error);
  CHECK_THROWS_WITH(read_traces(R"([{"rank": 0, "communications": [{"kind": "shout"}]}])"),
                    Catch::Matchers::Contains("cannot read the traces of ranks"));
  std::string other = text;
  other.replace(other.find("reduce_scatter"), 6, "indent");
  CHECK_THROWS_WITH(read_traces(other), Catch::Matchers::Contains("unknown collective: indent_scatter"));
  std::string beyond = text;
  beyond.replace(beyond.find("true,1"), 6, "true,2");
  CHECK_THROWS_WITH(read_traces(beyond), Catch::Matchers::Contains("an event of communication 2, and 2 of them"));
}

TEST_CASE("the median step has the median of each computing time", "[replay]") {
  CHECK(median_of({trace_with(3, 10), trace_with(1, 30), trace_with(2, 20)}) == trace_with(2, 20));
  CHECK(median_of({trace_with(3, 10), trace_with(1, 30)}) == trace_with(2, 20));
  CHECK(median_of({trace_with(3, 10)}) == trace_with(3, 10));
}

}  // namespace
}  // namespace trainctl::replay
