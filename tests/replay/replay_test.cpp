#include "replay/replay.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "pipeline/operations.h"
#include "pipeline/timeline.h"

namespace trainctl::replay {
namespace {

Communication over(std::vector<std::int64_t> members, double seconds, Collective kind = Collective::all_reduce) {
  return {.kind = kind, .axes = "some", .bytes = seconds, .members = std::move(members)};
}

Event start(double compute_s, std::size_t number) {
  return {.compute_s = compute_s, .waits = false, .communication = number};
}
Event wait(double compute_s, std::size_t number) {
  return {.compute_s = compute_s, .waits = true, .communication = number};
}

/// A byte takes a second, and a communication no other time.
Cost second_a_byte(const Communication& what) {
  return {.link_s = what.bytes};
}

TEST_CASE("a sum is exposed as far as it goes on after the computing beside it", "[replay]") {
  const auto step = [](double beside) {
    return replay({{.rank = 0,
                    .communications = {over({0, 1}, 3)},
                    .events = {start(1, 0), wait(beside, 0)},
                    .compute_s_after = 2}},
                  &second_a_byte);
  };
  const StepReplay partly = step(2);
  CHECK(partly.step_s == 1 + 3 + 2);
  CHECK(partly.ranks.front().compute_s == 1 + 2 + 2);
  CHECK(partly.ranks.front().exposed_s.at("some") == 1);
  CHECK(partly.ranks.front().bubble_s == 0);
  CHECK(step(5).step_s == 1 + 5 + 2);
  CHECK(step(5).ranks.front().all_exposed_s() == 0);
}

TEST_CASE("communications of a rank pass one after the other, and their delays at the same time", "[replay]") {
  const RankTrace trace{.rank = 0,
                        .communications = {over({0, 1}, 3), over({0, 1}, 4)},
                        .events = {start(0, 0), start(0, 1), wait(0, 0), wait(0, 1)}};
  const StepReplay step =
      replay({trace}, [](const Communication& what) { return Cost{.link_s = what.bytes, .delay_s = 10}; });
  CHECK(step.step_s == 3 + 4 + 10);
}

TEST_CASE("what passes beside computing takes its share of the device", "[replay]") {
  const RankTrace trace{
      .rank = 0, .communications = {over({0, 1}, 4)}, .events = {start(0, 0), wait(10, 0)}, .compute_s_after = 5};
  const StepReplay step =
      replay({trace}, [](const Communication& what) { return Cost{.link_s = what.bytes, .device_share = 0.25}; });
  CHECK(step.step_s == 10 + 0.25 * 4 + 5);
}

TEST_CASE("a rank waits in a bubble for one that has not come so far", "[replay]") {
  const auto rank = [](std::int64_t number, double compute_s) {
    return RankTrace{.rank = number, .communications = {over({0, 4}, 2)}, .events = {start(compute_s, 0), wait(0, 0)}};
  };
  const StepReplay step = replay({rank(0, 1), rank(4, 8)}, &second_a_byte);
  CHECK(step.step_s == 8 + 2);
  CHECK(step.ranks[0].bubble_s == 7);
  CHECK(step.ranks[0].all_exposed_s() == 2);
  CHECK(step.ranks[1].bubble_s == 0);
}

TEST_CASE("a sum over other ranks is not waited for", "[replay]") {
  const RankTrace first{.rank = 0, .communications = {over({0, 1}, 2)}, .events = {start(1, 0), wait(0, 0)}};
  const RankTrace second{.rank = 4, .communications = {over({4, 5}, 2)}, .events = {start(8, 0), wait(0, 0)}};
  const StepReplay step = replay({first, second}, &second_a_byte);
  CHECK(step.ranks[0].total_s == 3);
  CHECK(step.ranks[1].total_s == 10);
}

TEST_CASE("messages both ways pass at the same time, or queue as Gloo's do", "[replay]") {
  const auto exchange = [](bool receipts_queue) {
    const auto rank = [&](std::int64_t own, std::int64_t other) {
      return RankTrace{
          .rank = own,
          .communications = {over({own, other}, 5, Collective::send), over({other, own}, 5, Collective::receive)},
          .events = {start(0, 0), start(0, 1), wait(0, 0), wait(0, 1)},
          .receipts_queue = receipts_queue};
    };
    return std::vector<RankTrace>{rank(0, 1), rank(1, 0)};
  };
  CHECK(replay(exchange(false), &second_a_byte).step_s == 5);
  std::vector<RankTrace> gloo = exchange(true);
  std::swap(gloo[1].events[0], gloo[1].events[1]);  // as a ring does, where not all can send first
  std::swap(gloo[1].communications[0], gloo[1].communications[1]);
  gloo[1].events = {start(0, 0), start(0, 1), wait(0, 1), wait(0, 0)};
  CHECK(replay(gloo, &second_a_byte).step_s == 10);
}

TEST_CASE("a message from a rank that was not recorded comes as one that was sent at the same time", "[replay]") {
  const RankTrace trace{.rank = 0,
                        .communications = {over({0, 1}, 5, Collective::send), over({3, 0}, 5, Collective::receive)},
                        .events = {start(2, 0), start(0, 1), wait(0, 1), wait(0, 0)}};
  CHECK(replay({trace}, &second_a_byte).step_s == 7);
}

TEST_CASE("ranks that wait for each other are named", "[replay]") {
  const auto rank = [](std::int64_t own, std::int64_t other) {
    return RankTrace{
        .rank = own,
        .communications = {over({other, own}, 1, Collective::receive), over({own, other}, 1, Collective::send)},
        .events = {start(0, 0), wait(0, 0), start(0, 1), wait(0, 1)}};
  };
  CHECK_THROWS_WITH(replay({rank(0, 2), rank(2, 0)}, &second_a_byte),
                    "the recorded ranks wait for each other: rank 0 at one over some, rank 2 at one over some");
}

/// The trace of a rank that works through its operations, as train/loop does: an action takes as many seconds as given.
RankTrace trace_of(const pipeline::Schedule& schedule, std::int64_t rank, double transfer_s,
                   const std::function<double(const pipeline::Action&)>& seconds) {
  RankTrace trace{.rank = rank};
  std::map<pipeline::Action, std::size_t> receipts;
  const std::vector<std::int64_t> rank_of = schedule.rank_of_stages();
  double computed = 0;
  const auto add = [&](bool waits, std::size_t number) {
    trace.events.push_back({.compute_s = std::exchange(computed, 0), .waits = waits, .communication = number});
  };
  const std::vector<std::vector<pipeline::Operation>> operations = pipeline::operations_of(schedule);
  for (const pipeline::Operation& operation : operations[static_cast<std::size_t>(rank)]) {
    const bool sends = operation.kind == pipeline::Operation::Kind::send;
    if (sends || operation.kind == pipeline::Operation::Kind::receive) {
      const std::size_t number = trace.communications.size();
      trace.communications.push_back(sends ? over({rank, operation.peer}, transfer_s, Collective::send)
                                           : over({operation.peer, rank}, transfer_s, Collective::receive));
      add(false, number);
      if (!sends) receipts[operation.action] = number;
      continue;
    }
    const pipeline::Action& action = operation.action;
    pipeline::Action source = action;
    const bool is_forward = action.kind == pipeline::ActionKind::forward;
    source.stage += is_forward ? -1 : 1;
    if (const auto receipt = receipts.find(source); receipt != receipts.end()) add(true, receipt->second);
    computed += seconds(action);
  }
  trace.compute_s_after = computed;
  return trace;
}

TEST_CASE("replayed ranks of a pipeline end when the schedule's simulation says", "[replay]") {
  const auto seconds = [](const pipeline::Action& action) {
    return (action.kind == pipeline::ActionKind::forward ? 1.0 : 2.0) + 0.125 * static_cast<double>(action.stage);
  };
  for (const double transfer : {0.0, 0.25}) {
    for (const pipeline::Schedule& schedule :
         {pipeline::gpipe(4, 6), pipeline::one_forward_one_backward(4, 8), pipeline::one_forward_one_backward(2, 5)}) {
      std::vector<RankTrace> traces;
      for (std::int64_t rank = 0; rank < schedule.num_ranks(); ++rank)
        traces.push_back(trace_of(schedule, rank, transfer, seconds));
      const pipeline::Timeline simulated = pipeline::simulate(schedule, {.compute = seconds, .transfer = transfer});
      const StepReplay step = replay(traces, [](const Communication& what) { return Cost{.delay_s = what.bytes}; });
      if (transfer == 0) CHECK(step.step_s == Approx(simulated.duration));
      // A message waits until its receiver has come so far, which the simulation passes over.
      CHECK(step.step_s >= simulated.duration);
      CHECK(step.step_s <= simulated.duration + transfer * 2 * static_cast<double>(schedule.num_micro_batches));
    }
  }
}

}  // namespace
}  // namespace trainctl::replay
