#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_support.h"
#include "comm/world.h"
#include "support/temporary_directory.h"

#include <catch2/catch.hpp>  // after LibTorch, which has a CHECK too

namespace trainctl::checkpoint {
namespace {

using testing::info_of;
using testing::state_of;
using testing::tells;
using testing::TemporaryDirectory;

/// Saves step after step, every other one twice, until it is killed.
[[noreturn]] void save_forever(const std::filesystem::path& directory, std::int64_t step) {
  Saver saver(directory, {.keep_last = 2, .best = BestConfig{.metric = "loss", .mode = MetricOrder::min}});
  for (;; ++step)
    for (std::int64_t time = 0; time <= step % 2; ++time)
      saver.save(state_of(step, 30'000), info_of(step, {{"loss", 1.0 / static_cast<double>(step)}}));
}

/// Saves step after step by three ranks, which are threads.
[[noreturn]] void save_together_forever(const std::filesystem::path& directory, std::int64_t first) {
  std::vector<std::unique_ptr<comm::Group>> groups = comm::thread_groups(3, std::chrono::seconds(60));
  std::vector<std::thread> ranks;
  for (std::unique_ptr<comm::Group>& group : groups)
    ranks.emplace_back([&, first] {
      Saver saver(directory, {.keep_last = 2}, group.get());
      for (std::int64_t step = first;; ++step) saver.save(state_of(step, 900'000), info_of(step));
    });
  for (std::thread& rank : ranks) rank.join();
  std::abort();
}

/// Kills a process that saves from a step on, `rounds` times after some milliseconds. Each leaves a complete
/// checkpoint, none older than the last. There are more rounds if no process has saved by then. Returns the step
/// reached.
template <class SaveForever, class Check>
std::int64_t kill_and_look(const TemporaryDirectory& scratch, int rounds, std::uniform_int_distribution<> milliseconds,
                           const SaveForever& save, const Check& check) {
  std::mt19937 random(1);
  std::int64_t reached = 0;
  for (int round = 0; round < rounds || (reached == 0 && round < 100 * rounds); ++round) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) save(scratch.path(), reached + 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds(random)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto found = find_newest(scratch.path());
    INFO("round " << round << ", step " << reached);
    REQUIRE((found || reached == 0));
    if (!found) continue;
    CHECK(found->step >= reached);
    CHECK(tells(found->path, found->step));
    check(found->path);
    reached = found->step;
  }
  CHECK(reached > 0);
  return reached;
}

TEST_CASE("whenever ranks that save together are killed, a complete checkpoint is left", "[checkpoint]") {
  const TemporaryDirectory scratch;
  kill_and_look(scratch, 12, std::uniform_int_distribution(50, 400), save_together_forever,
                [](const std::filesystem::path& step) {
                  CHECK(std::filesystem::exists(step / "part_00003_of_00003.safetensors"));
                });
}

TEST_CASE("whenever a saving process is killed, a complete checkpoint is left", "[checkpoint]") {
  const TemporaryDirectory scratch;
  const std::int64_t reached = kill_and_look(scratch, 20, std::uniform_int_distribution(5, 150), save_forever,
                                             [&](const std::filesystem::path&) {
                                               if (std::filesystem::exists(scratch / "best"))
                                                 CHECK(find_newest(scratch / "best"));
                                             });
  // The next saver clears up after the last: two steps at most beside the best, and nothing half-written.
  Saver(scratch.path(), {.keep_last = 2}).save(state_of(reached + 1), info_of(reached + 1));
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path()))
    CHECK(entry.path().filename().string().find(".tmp-") == std::string::npos);
}

}  // namespace
}  // namespace trainctl::checkpoint
