#include "comm/health/rank_status.h"

#include <catch2/catch.hpp>

namespace trainctl::comm {
namespace {

RankStatus standing(std::int64_t rank, std::int64_t sequence, bool is_done) {
  return {.rank = rank,
          .host = "node" + std::to_string(rank),
          .beat = 5,
          .step = 12,
          .places = {{"all ranks",
                      {.sequence = sequence,
                       .collective = "all_reduce #" + std::to_string(sequence) + " of all ranks (4.0 MiB)",
                       .is_done = is_done,
                       .age_s = 31}}}};
}

Evidence timed_out() {
  return {.rank = 0,
          .message = "all_reduce of 4.0 MiB failed: Timed out waiting 6000ms for recv",
          .failed_collective = CollectiveEvent{.group = "all ranks",
                                               .sequence = 153,
                                               .operation = "all_reduce",
                                               .bytes = 4 << 20,
                                               .step = 12,
                                               .error = "Timed out waiting 6000ms for recv"},
          .standings = {standing(0, 153, false), standing(1, 152, true), standing(2, 153, false)}};
}

TEST_CASE("a standing survives its text", "[comm]") {
  RankStatus before = standing(2, 7, true);
  before.status = RankStatus::Status::left;
  before.knows_failure = true;
  before.process = {.machine = "m", .number = 812, .start_time = 5512};
  before.launcher = {.machine = "m", .number = 800, .start_time = 5000};
  const RankStatus after = standing_from_json(to_json(before));
  REQUIRE(to_json(after) == to_json(before));
  REQUIRE(after.process == before.process);
  REQUIRE(after.launcher == before.launcher);
  REQUIRE(after.places.at("all ranks").sequence == 7);
  const Failure failure = failure_from_json(to_json(Failure{1, "h", 3, "bytes \xff that are no text", true}));
  REQUIRE(failure.step == 3);
  REQUIRE(failure.is_diagnosis);
}

TEST_CASE("the first failure that a rank told is everyone's", "[comm]") {
  Evidence evidence = timed_out();
  evidence.first = Failure{.rank = 1, .host = "node1", .step = 12, .message = "disk full"};
  REQUIRE(text_of(judge(evidence)) == "rank 1 on node1 failed at step 12: disk full");
}

TEST_CASE("the rank that never came to a collective is named, and where it was", "[comm]") {
  const Failure failure = judge(timed_out());
  REQUIRE(failure.rank == 1);
  REQUIRE(text_of(failure) ==
          "rank 1 on node1 never came to all_reduce #153 of all ranks (4.0 MiB) at step 12: its last was all_reduce "
          "#152 of all ranks (4.0 MiB), begun 31.0 s before its last sign of life");
}

TEST_CASE("a rank without a sign of life hangs where a collective timed out, else it is gone", "[comm]") {
  Evidence evidence = timed_out();
  evidence.silent = {1};
  REQUIRE_THAT(text_of(judge(evidence)), Catch::StartsWith("rank 1 on node1 hangs: no sign of life since step 12"));
  evidence.message = "Connection closed by peer";
  evidence.failed_collective->error = evidence.message;
  REQUIRE(text_of(judge(evidence)) == "rank 1 on node1 is gone (killed?) since step 12");
  evidence.silent = {1, 2};
  REQUIRE(text_of(judge(evidence)) == "rank 1 on node1 and rank 2 on node2, each is gone (killed?) since step 12");
}

TEST_CASE("a rank that is alive and never came is named with what it does, also where gloo closed the pair", "[comm]") {
  Evidence evidence = timed_out();
  evidence.message = evidence.failed_collective->error = "Application timeout caused pair closure";
  evidence.standings[1].doing = "in data for 9 s";
  const std::string text = text_of(judge(evidence));
  REQUIRE_THAT(text, Catch::StartsWith("rank 1 on node1 never came to all_reduce #153"));
  REQUIRE_THAT(text, Catch::Contains("it was in data for 9 s; its last was all_reduce #152"));
}

TEST_CASE("who kept the store is gone with it", "[comm]") {
  Evidence evidence = timed_out();
  evidence.rank = 2;
  evidence.message = evidence.failed_collective->error = "Connection reset by peer";
  evidence.store = Evidence::Store::lost;
  REQUIRE(text_of(judge(evidence)) == "rank 0 on node0 is gone (killed?) since step 12");
  evidence.store = Evidence::Store::silent;
  REQUIRE_THAT(text_of(judge(evidence)), Catch::StartsWith("rank 0 on node0 hangs: the store that it keeps"));
  evidence.store_is_served = true;
  evidence.launcher = "torchrun";
  REQUIRE_THAT(text_of(judge(evidence)),
               Catch::StartsWith("Connection reset by peer (and the store that torchrun keeps where rank 0 on node0"));
}

TEST_CASE("processes that have ended without a word are named, whatever the clock says", "[comm]") {
  Evidence evidence = timed_out();
  evidence.ended = {1};
  evidence.silent = {2};
  REQUIRE(text_of(judge(evidence)) == "rank 1 on node1 is gone (killed?) since step 12");
}

TEST_CASE("of those who ended with a launcher's store, its own node's are the cause", "[comm]") {
  Evidence evidence = timed_out();
  evidence.rank = 2;
  evidence.store = Evidence::Store::lost;
  evidence.store_is_served = true;
  evidence.launcher = "torchrun";
  evidence.ended = {0, 1};
  evidence.standings[1].node_rank = 1;
  REQUIRE(text_of(judge(evidence)) == "rank 0 on node0 is gone (killed?) since step 12");
  evidence.standings[1].node_rank = 0;
  REQUIRE(text_of(judge(evidence)) == "rank 0 on node0 and rank 1 on node1, each is gone (killed?) since step 12");
}

TEST_CASE("a rank that had heard of a failure, or left, hasn't ended without a word", "[comm]") {
  std::vector<RankStatus> standings = {standing(0, 1, true), standing(1, 1, true), standing(2, 1, true),
                                       standing(3, 1, true)};
  for (RankStatus& one : standings) {
    one.process = own_process();
    one.process.start_time -= 1;  // an earlier process
  }
  standings[1].knows_failure = true;
  standings[2].status = RankStatus::Status::left;
  standings[3].process = own_process();
  REQUIRE(exited_ranks(standings) == std::vector<std::int64_t>{0});
}

TEST_CASE("a rank that ended early, and one that does other work, are named", "[comm]") {
  Evidence evidence = timed_out();
  evidence.standings[1].status = RankStatus::Status::left;
  REQUIRE_THAT(text_of(judge(evidence)), Catch::StartsWith("rank 1 on node1 ended its run at step 12, while rank 0"));
  evidence = timed_out();
  evidence.standings[1] = standing(1, 153, false);
  evidence.standings[1].places["all ranks"].collective = "broadcast #153 of all ranks (8 B)";
  REQUIRE_THAT(text_of(judge(evidence)), Catch::Contains("rank 1 on node1 is in broadcast #153 of all ranks (8 B)") &&
                                             Catch::Contains("the ranks do different work"));
}

TEST_CASE("where all are alive the own error stays", "[comm]") {
  Evidence evidence = timed_out();
  evidence.standings[1] = standing(1, 153, false);
  REQUIRE_THAT(text_of(judge(evidence)), Catch::StartsWith("rank 0 on node0: " + evidence.message));
  evidence.failed_collective.reset();
  evidence.message = "cannot open a.bin";
  REQUIRE(text_of(judge(evidence)) == "cannot open a.bin");
}

}  // namespace
}  // namespace trainctl::comm
