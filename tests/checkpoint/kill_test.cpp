#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
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

/// The number of changes of a directory that this process still makes; it ends before the next. Negative: no limit.
std::atomic<std::int64_t> changes_left = -1;

void count_change() {
  if (changes_left >= 0 && changes_left-- == 0) ::_exit(1);
}

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

/// Saves `step` in a process that ends before its `point`th change of a directory. Returns whether it came that far.
bool ends_at(std::int64_t point, const std::filesystem::path& directory, std::int64_t step) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    changes_left = point;
    Saver saver(directory, {.keep_last = 2, .best = BestConfig{}});
    saver.save(state_of(step), info_of(step, {{"accuracy", 1}}));
    saver.finish();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status != 0;
}

TEST_CASE("wherever a save ends, the newest complete checkpoint comes first, and a withdrawn one last",
          "[checkpoint][regression]") {
  for (const std::int64_t step : {20, 30}) {  // the second one replaces a withdrawn checkpoint
    std::int64_t point = 0;
    for (bool ended = true; ended; ++point) {
      const TemporaryDirectory scratch;
      {
        Saver saver(scratch.path(), {.keep_last = 2});
        for (const std::int64_t before : {10, 30}) saver.save(state_of(before), info_of(before));
        saver.finish();
      }
      go_on_from(scratch.path(), 10, /*best=*/0);
      ended = ends_at(point, scratch.path(), step);
      const std::filesystem::path saved = scratch / (step == 20 ? "step_00000020" : "step_00000030");
      const bool is_there =
          std::filesystem::exists(saved / "manifest.json") && !std::filesystem::exists(saved / "withdrawn");
      INFO("step " << step << ", point " << point);
      REQUIRE(point < 1000);
      CHECK((is_there || ended));
      const auto found = find_newest(scratch.path());
      REQUIRE(found);
      CHECK(found->step == (is_there ? step : 10));
      CHECK(tells(found->path, found->step));
    }
    CHECK(point > 10);
  }
}

}  // namespace
}  // namespace trainctl::checkpoint

// They take the place of the C library's for the whole program, and count for a process that is to end at one of them.
extern "C" {
int rename(const char* from, const char* to) noexcept {
  trainctl::checkpoint::count_change();
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) noexcept {
  trainctl::checkpoint::count_change();
  return static_cast<int>(::syscall(SYS_renameat2, from_directory, from, to_directory, to, flags));
}
int symlink(const char* target, const char* link) noexcept {
  trainctl::checkpoint::count_change();
  return static_cast<int>(::syscall(SYS_symlinkat, target, AT_FDCWD, link));
}
int unlink(const char* path) noexcept {
  trainctl::checkpoint::count_change();
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
int unlinkat(int directory, const char* path, int flags) noexcept {
  trainctl::checkpoint::count_change();
  return static_cast<int>(::syscall(SYS_unlinkat, directory, path, flags));
}
int mkdir(const char* path, mode_t mode) noexcept {
  trainctl::checkpoint::count_change();
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int fsync(int file) {
  trainctl::checkpoint::count_change();
  return static_cast<int>(::syscall(SYS_fsync, file));
}
}
