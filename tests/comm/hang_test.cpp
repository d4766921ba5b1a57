#include <catch2/catch.hpp>

#include "comm/child_process.h"
#include "comm/health/rank_status.h"

using namespace trainctl;
using namespace trainctl::comm;

namespace {

RankStatus standing(std::int64_t rank, std::int64_t sequence, bool is_done, std::string doing) {
  RankStatus one;
  one.rank = rank;
  one.host = "node";
  one.doing = std::move(doing);
  one.places["all ranks"] = {
      .sequence = sequence, .collective = "all_reduce #" + std::to_string(sequence), .is_done = is_done, .age_s = 3};
  return one;
}

}  // namespace

TEST_CASE("The rank that has not come to the others' collective differs, and what it does is said", "[comm]") {
  const std::string text =
      describe_stall({standing(0, 7, false, "in count for 12 s"), standing(1, 6, true, "in data for 12 s"),
                      standing(2, 7, false, "in count for 12 s")});
  CHECK(text ==
        "rank 1 on node differs: it is in data for 12 s, and has not come to all_reduce #7, where rank 0 on node and "
        "rank 2 on node wait");
}

TEST_CASE("Among ranks that wait for no collective, the one that does something else differs", "[comm]") {
  const std::string text =
      describe_stall({standing(0, 7, true, "in forward for 2 s"), standing(1, 7, true, "in forward for 3 s"),
                      standing(2, 7, true, "in optimizer for 3 s")});
  CHECK(text == "rank 2 on node differs: it is in optimizer for 3 s");
}

TEST_CASE("A stopped rank differs, wherever it stopped", "[comm]") {
  const Child child;
  child.stop();
  const std::string stopped = "rank 1 on node differs: it is stopped (process " + std::to_string(child.id().number) +
                              ", by a signal or a debugger)";
  const auto told = [&](std::int64_t sequence, bool is_done) {
    RankStatus at = standing(1, sequence, is_done, "");
    at.process = child.id();
    return describe_stall({standing(0, 7, false, "in backward for 2 s"), at});
  };
  const std::string waits = " all_reduce #7, where rank 0 on node waits";
  CHECK(told(6, true) == stopped + ", and has not come to" + waits);
  CHECK(told(7, false) == stopped + ", in" + waits);
  CHECK(told(7, true) == stopped + ", and is through with" + waits);
  CHECK(told(8, false) == stopped + ", and is through with" + waits);
}

TEST_CASE("Ranks that all wait in one collective don't differ", "[comm]") {
  const std::string text =
      describe_stall({standing(0, 7, false, "in backward for 2 s"), standing(1, 7, false, "in backward for 2 s")});
  CHECK(text == "no rank differs: all are in backward for 2 s, in all_reduce #7");
}

TEST_CASE("Ranks that run are waited for until they have told what they do", "[comm]") {
  std::vector<RankStatus> standings = {standing(0, 7, false, "in backward for 2 s"), standing(1, 6, true, "")};
  CHECK_FALSE(all_have_reported(standings));
  standings[1].status = RankStatus::Status::left;
  CHECK(all_have_reported(standings));
  standings[1] = standing(1, 6, true, "in data for 2 s");
  CHECK(all_have_reported(standings));
}

TEST_CASE("A process alone has nobody to differ from", "[comm]") {
  CHECK(describe_stall({standing(0, 1, true, "in data for 2 s")}).empty());
}

TEST_CASE("What a rank says that it does reaches the others", "[comm]") {
  const RankStatus told = standing(3, 9, false, "in data for 4 s");
  CHECK(standing_from_json(to_json(told)).doing == told.doing);
}
