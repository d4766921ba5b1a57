// What becomes of saves for which there is no room, where training is to go on.
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <fstream>
#include <mutex>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_support.h"
#include "checkpoint/ranks.h"
#include "support/temporary_directory.h"

#include <catch2/catch.hpp>  // after LibTorch, which has a CHECK too

namespace trainctl::checkpoint {
namespace {

using Catch::Matchers::Contains;
using testing::info_of;
using testing::names_in;
using testing::on_ranks;
using testing::state_of;
using testing::tells;
using testing::TemporaryDirectory;

/// No file grows beyond it.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit before_{};
};

TEST_CASE("where somebody is told, saving goes on after a failure", "[checkpoint]") {
  for (const bool background : {true, false}) {
    const TemporaryDirectory scratch;
    Saver saver(scratch.path(), {.keep_last = 2, .async = background});
    std::vector<std::string> told;
    saver.on_failed = [&](const std::string& what) { told.push_back(what); };
    saver.save(state_of(1), info_of(1));
    saver.finish();
    {
      const SmallFiles limit(10'000);
      saver.save(state_of(2, 10'000), info_of(2));
      saver.save(state_of(3), info_of(3));  // small enough
      saver.save(state_of(4, 10'000), info_of(4));
      CHECK_THROWS_WITH(saver.finish(), Contains("while saving the checkpoint of step 4"));
    }
    REQUIRE(told.size() == (background ? 1U : 2U));
    CHECK_THAT(told.front(), Contains("File too large") && Contains("while saving the checkpoint of step 2"));
    saver.save(state_of(5), info_of(5));
    saver.finish();
    CHECK(names_in(scratch.path()) == std::set<std::string>{"latest", "step_00000003", "step_00000005"});
    CHECK(tells(scratch / "latest", 5));
  }
}

TEST_CASE("of ranks that save together all go on after the failure of one", "[checkpoint]") {
  for (const bool background : {true, false}) {
    const TemporaryDirectory scratch;
    std::mutex mutex;
    std::vector<std::string> told;
    on_ranks(3, [&](comm::Group& group) {
      Saver saver(scratch.path(), {.keep_last = 2, .async = background}, &group);
      saver.on_failed = [&](const std::string& what) {
        const std::lock_guard lock(mutex);
        told.push_back(what);
      };
      saver.save(state_of(1, 30'000), info_of(1));
      saver.finish();
      group.barrier();
      std::optional<SmallFiles> limit;
      if (group.rank() == 0) limit.emplace(10'000);
      group.barrier();
      saver.save(state_of(2, 30'000), info_of(2));
      saver.save(state_of(3, 100), info_of(3));
      group.barrier();
      limit.reset();
      group.barrier();
      saver.save(state_of(4, 30'000), info_of(4));
      saver.finish();
    });
    CHECK(told.size() >= 1);
    CHECK_THAT(told.front(), Contains("while saving the checkpoint of step 2"));
    CHECK(names_in(scratch.path()) == std::set<std::string>{"latest", "step_00000003", "step_00000004"});
    CHECK(tells(scratch / "latest", 4));
  }
}

TEST_CASE("where the first rank can't make the place, no rank waits for it", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const std::filesystem::path place = scratch / "run";
  std::atomic<int> told = 0;
  std::filesystem::create_directory(place);
  on_ranks(2, [&](comm::Group& group) {
    Saver saver(place / "checkpoints", {}, &group);
    saver.on_failed = [&](const std::string&) { ++told; };
    group.barrier();
    if (group.rank() == 0) {
      std::filesystem::remove_all(place);
      std::ofstream(place) << "no directory";
    }
    group.barrier();
    saver.save(state_of(1), info_of(1));
    group.barrier();
    if (group.rank() == 0) std::filesystem::remove(place);
    group.barrier();
    saver.save(state_of(2), info_of(2));
    saver.finish();
  });
  CHECK(told == 1);
  CHECK(tells(place / "checkpoints" / "latest", 2));
}

}  // namespace
}  // namespace trainctl::checkpoint
