#include "pipeline/schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "core/error.h"
#include "pipeline/operations.h"
#include "pipeline/timeline.h"

namespace trainctl::pipeline {
namespace {

using Catch::Contains;

std::string text_of(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions) text += (text.empty() ? "" : " ") + pipeline::text_of(action);
  return text;
}

/// F takes 1, B 2, I and W 1 each, of one stage.
double unit_cost(const Action& action) {
  return action.kind == ActionKind::backward ? 2 : 1;
}

Timeline simulate(const Schedule& schedule) {
  return pipeline::simulate(schedule, {.compute = unit_cost, .transfer = 0});
}

/// Every schedule at this size.
std::vector<std::pair<std::string, Schedule>> all_schedules(std::int64_t ranks, std::int64_t micro_batches) {
  std::vector<std::pair<std::string, Schedule>> all{{"gpipe", gpipe(ranks, micro_batches)},
                                                    {"1f1b", one_forward_one_backward(ranks, micro_batches)},
                                                    {"zbv", zero_bubble_v(ranks, micro_batches)}};
  if (micro_batches % std::max<std::int64_t>(1, micro_batches / ranks) == 0)
    for (const std::int64_t chunks : {2, 3}) all.emplace_back("interleaved", interleaved(ranks, chunks, micro_batches));
  return all;
}

TEST_CASE("every schedule is complete, ends, and has an order that backends without tags keep", "[pipeline]") {
  for (const std::int64_t ranks : {1, 2, 3, 4, 8})
    for (const std::int64_t micro_batches : {1, 2, 3, 4, 7, 8, 16})
      for (const auto& [name, schedule] : all_schedules(ranks, micro_batches)) {
        INFO(name << " of " << ranks << " ranks, " << micro_batches << " micro-batches");
        CHECK(schedule.num_ranks() == ranks);
        REQUIRE_NOTHROW(check_complete(schedule));
        REQUIRE_NOTHROW(check_order(operations_of(schedule)));
      }
}

TEST_CASE("1F1B fills the pipeline and then alternates", "[pipeline]") {
  const Schedule schedule = one_forward_one_backward(3, 4);
  CHECK(text_of(schedule.ranks[0]) == "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3");
  CHECK(text_of(schedule.ranks[1]) == "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3");
  CHECK(text_of(schedule.ranks[2]) == "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3");
}

TEST_CASE("interleaved 1F1B deals stages in turn, and micro-batches in rounds of the ranks", "[pipeline]") {
  const Schedule schedule = interleaved(2, 2, 4);
  CHECK(text_of(schedule.ranks[0]) == "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  CHECK(text_of(schedule.ranks[1]) == "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3");
  CHECK_THROWS_WITH(interleaved(2, 2, 5), Contains("5 micro-batches into 2 equal rounds"));
}

TEST_CASE("bubbles have the length that the papers give", "[pipeline]") {
  for (const std::int64_t p : {2, 4, 8})
    for (const std::int64_t rounds : {1, 2, 4}) {
      const std::int64_t m = p * rounds;
      const auto idle = static_cast<double>(p - 1);
      const auto work = static_cast<double>(m);
      INFO(p << " ranks, " << m << " micro-batches");
      for (const Schedule& schedule : {gpipe(p, m), one_forward_one_backward(p, m)})
        for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
          CHECK(simulate(schedule).bubble(rank) == Approx(idle / (work + idle)).epsilon(1e-12));
      for (const std::int64_t v : {2, 4})
        CHECK(simulate(interleaved(p, v, m)).bubble() ==
              Approx(idle / (static_cast<double>(v) * work + idle)).epsilon(1e-12));
    }
}

TEST_CASE("ZBV waits only to fill the pipeline and to drain it", "[pipeline]") {
  for (const std::int64_t p : {2, 4, 8})
    for (const std::int64_t m : {2 * p, 4 * p}) {
      const Timeline timeline = simulate(zero_bubble_v(p, m));
      // Rank r begins r late: F of the stages before it. Nothing else is waited for where F, I and W are equally long.
      CHECK(timeline.duration == static_cast<double>(6 * m + p - 1));
      for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank)
        CHECK(timeline.bubble(rank) == Approx((p - 1.0) / (6.0 * static_cast<double>(m) + p - 1.0)).epsilon(1e-12));
    }
}

TEST_CASE("as many micro-batches are live as the papers say", "[pipeline]") {
  for (const std::int64_t p : {2, 4, 8})
    for (const std::int64_t m : {p, 2 * p, 4 * p})
      for (std::int64_t rank = 0; rank < p; ++rank) {
        const auto live = [&](const Schedule& schedule) {
          return peak_live(schedule.ranks[static_cast<std::size_t>(rank)]);
        };
        CHECK(live(gpipe(p, m)) == m);
        CHECK(live(one_forward_one_backward(p, m)) == std::min(m, p - rank));
        for (const std::int64_t v : {2, 3})
          CHECK(live(interleaved(p, v, m)) == std::min(v * m, (v - 1) * p + 2 * (p - 1 - rank) + 1));
        CHECK(live(zero_bubble_v(p, m)) <= 2 * p);  // two stages each half as deep: the memory of 1F1B's first rank
      }
}

TEST_CASE("a schedule is read from PyTorch's format", "[pipeline]") {
  const Schedule schedule = read_schedule("0F0,0F1,,,0B0,0B1\n\n,1F0, 1F1 ,1I0,1W0,1I1,1W1\r\n", "mine.csv");
  CHECK(schedule.num_stages == 2);
  CHECK(schedule.num_micro_batches == 2);
  CHECK(text_of(schedule.ranks[1]) == "1F0 1F1 1I0 1W0 1I1 1W1");
  CHECK_NOTHROW(check_order(operations_of(schedule)));
}

TEST_CASE("a wrong schedule is refused at its place", "[pipeline]") {
  CHECK_THROWS_WITH(read_schedule("0F0,0B0\n1F0,1X0\n", "mine.csv"), Contains("mine.csv:2:5: ") && Contains("'1X0'"));
  CHECK_THROWS_WITH(read_schedule("0F0,F1\n", "mine.csv"), Contains("mine.csv:1:5: "));
  CHECK_THROWS_WITH(read_schedule("0F9999999\n", "mine.csv"), Contains("mine.csv:1:1: "));
  CHECK_THROWS_WITH(read_schedule(" , \n", "mine.csv"), Contains("no action"));
  CHECK_THROWS_WITH(read_schedule("0F0,0B0,0F1\n", "m"),
                    Contains("stage 0 computes on micro-batch 1 in the order F, on rank 0"));
  CHECK_THROWS_WITH(read_schedule("0B0,0F0\n", "m"), Contains("in the order B, F"));
  CHECK_THROWS_WITH(read_schedule("0F0,0B0\n0F1,0B1\n", "m"), Contains("stage 0 is on ranks 0 and 1"));
  CHECK_THROWS_WITH(read_schedule("1F0,1B0\n", "m"), Contains("stage 0 is on no rank"));
  CHECK_THROWS_WITH(read_schedule("0F1,0B1\n1F1,1B1\n", "m"), Contains("micro-batch 0 never"));
}

TEST_CASE("a schedule that would wait for ever is refused before it begins", "[pipeline]") {
  // Rank 1 wants the second micro-batch first, and rank 0 sends it only after the first one's backward pass.
  const Schedule schedule = read_schedule("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", "mine.csv");
  CHECK_THROWS_WITH(operations_of(schedule), Contains("rank 0 waits at 0B0 for 1B0 of rank 1") &&
                                                 Contains("rank 1 waits at 1F1 for 0F1 of rank 0"));
  using Kind = Operation::Kind;
  const Action down{.kind = ActionKind::forward, .stage = 0, .micro_batch = 0};
  const Action up{.kind = ActionKind::backward, .stage = 1, .micro_batch = 0};
  // Both send first: a backend that waits for the other rank's receive never ends.
  const std::vector<std::vector<Operation>> both_send{
      {{.kind = Kind::send, .action = down, .peer = 1}, {.kind = Kind::receive, .action = up, .peer = 1}},
      {{.kind = Kind::send, .action = up, .peer = 0}, {.kind = Kind::receive, .action = down, .peer = 0}}};
  CHECK_THROWS_WITH(check_order(both_send), Contains("rank 0 waits to send 0F0 to rank 1"));
}

TEST_CASE("transfers take time, and unequal stages wait for the slowest", "[pipeline]") {
  const Schedule schedule = one_forward_one_backward(2, 4);
  const Timeline timeline = pipeline::simulate(
      schedule, {.compute = [](const Action& action) { return action.stage == 1 ? 3.0 : 1.0; }, .transfer = 0.5});
  CHECK(timeline.ranks[1].front().begin == 1.5);
  CHECK(timeline.duration == Approx(1 + 0.5 + 4 * 6 + 0.5 + 1));
}

TEST_CASE("of a rank's wait, what is under way is told from what is not made yet", "[pipeline]") {
  // Rank 1 waits for the first output, and rank 0 for the first gradient; the second ones arrive before they are due.
  const Schedule schedule = gpipe(2, 2);
  const Timeline timeline = pipeline::simulate(schedule, {.compute = unit_cost, .transfer = 0.5});
  const std::vector<double> times = transfer_times(schedule, timeline);
  REQUIRE(times.size() == 2);
  CHECK(times[0] == Approx(0.5));
  CHECK(times[1] == Approx(0.5));
  CHECK(transfer_times(schedule, simulate(schedule)) == std::vector<double>{0, 0});
}

}  // namespace
}  // namespace trainctl::pipeline
