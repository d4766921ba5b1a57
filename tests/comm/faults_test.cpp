// Ranks as processes that are killed, stopped, or fail: what the others say.
#include <ATen/ops/ones.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "comm/failure.h"
#include "comm/world.h"
#include "core/error.h"
#include "core/file.h"
#include "core/local_ranks.h"
#include "support/temporary_directory.h"

namespace trainctl::comm {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr const char* kFault = "CLUSTER_TEST_FAULT";
constexpr const char* kOutput = "CLUSTER_TEST_OUTPUT";

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string variable(const char* name) {
  return process_environment(name).value_or("");
}

/// "rank fault": which rank does what in its fourth step.
void commit(const std::string& fault, World& world) {
  world.tell_doing("about to sum", 3);
  if (!fault.starts_with(std::to_string(world.launch().rank) + " ")) return;
  world.diagnose_stall(3);  // returns when all ranks, this one too, have told that they are here
  core::write_file_atomically(fs::path(variable(kOutput)) / "when", std::to_string(now_s()));
  const std::string what = fault.substr(2);
  if (what == "kill") ::raise(SIGKILL);
  if (what == "stop") ::raise(SIGSTOP);
  if (what == "throw") throw core::Error("cannot write a.bin: No space left on device").hint("free some space");
  if (what == "leave") throw 0;
  if (what == "sleep") std::this_thread::sleep_for(1h);
}

void work(World& world) {
  for (std::int64_t step = 0; step < 1000; ++step) {
    world.set_step(step);
    if (step == 3) commit(variable(kFault), world);
    const at::Tensor tensor = at::ones({1000});
    world.group().all_reduce(tensor, Reduce::sum)->wait();
  }
}

TEST_CASE("a rank of the tests below", "[.rank]") {
  WorldOptions options;
  options.launch = *read_launch(process_environment);
  options.timeout = std::chrono::milliseconds(std::stoll(variable("CLUSTER_TEST_TIMEOUT_MS")));
  die_with_launcher(options.launch);
  const std::unique_ptr<World> world = join(options);
  const fs::path file = fs::path(variable(kOutput)) / ("rank_" + std::to_string(options.launch.rank));
  try {
    work(*world);
    core::write_file_atomically(file, "no failure");
  } catch (const std::exception& error) {
    world->report(error.what());
    const Failure failure = world->root_cause(error.what());
    core::write_file_atomically(file, text_of(failure));
    core::write_file_atomically(file.string() + ".time", std::to_string(now_s()));
    core::write_file_atomically(file.string() + ".collectives", world->collectives());
    ::_exit(core::kExitFailed);
  } catch (int) {  // leaves in good order, while the others go on
  }
}

struct Outcome {
  fs::path directory;
  double latest_s = 0;  // from the fault to the last root cause

  std::string text(std::int64_t rank, const std::string& what = "") const {
    const fs::path file = directory / ("rank_" + std::to_string(rank) + what);
    return fs::exists(file) ? core::read_file(file) : "nothing";
  }
};

class RankProcesses {
 public:
  RankProcesses(std::int64_t world_size, const std::string& fault, const fs::path& output,
                std::chrono::milliseconds timeout) {
    const core::Listener listener;
    for (std::int64_t rank = 0; rank < world_size; ++rank)
      pids_.push_back(start({{core::kParentVariable, std::to_string(::getpid())},
                             {core::kListenVariable, rank == 0 ? "3" : ""},
                             {"RANK", std::to_string(rank)},
                             {"LOCAL_RANK", std::to_string(rank)},
                             {"WORLD_SIZE", std::to_string(world_size)},
                             {"LOCAL_WORLD_SIZE", std::to_string(world_size)},
                             {"MASTER_ADDR", "127.0.0.1"},
                             {"MASTER_PORT", std::to_string(listener.port())},
                             {"OMP_NUM_THREADS", "1"},
                             {kFault, fault},
                             {kOutput, output.string()},
                             {"CLUSTER_TEST_TIMEOUT_MS", std::to_string(timeout.count())}},
                            listener.descriptor()));
  }

  /// Waits until all but `rank` have ended, then ends that one too.
  void wait_for_all_but(std::int64_t rank) {
    for (std::size_t i = 0; i < pids_.size(); ++i) {
      if (static_cast<std::int64_t>(i) == rank) continue;
      ::waitpid(pids_[i], nullptr, 0);
    }
    ::kill(pids_[static_cast<std::size_t>(rank)], SIGKILL);
    ::waitpid(pids_[static_cast<std::size_t>(rank)], nullptr, 0);
  }

 private:
  static pid_t start(const std::map<std::string, std::string>& environment, int listener) {
    std::vector<std::string> variables{"PATH=/usr/bin:/bin"};
    for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
    std::vector<char*> variable_pointers;
    for (std::string& text : variables) variable_pointers.push_back(text.data());
    variable_pointers.push_back(nullptr);
    std::vector<std::string> words{"test_comm", "[.rank]"};
    std::vector<char*> arguments{words[0].data(), words[1].data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, listener, 3);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t pid = -1;
    REQUIRE(::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments.data(), variable_pointers.data()) == 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }

  std::vector<pid_t> pids_;
};

Outcome outcome_of(std::int64_t world_size, std::int64_t culprit, const std::string& what,
                   const testing::TemporaryDirectory& scratch, std::chrono::milliseconds timeout = 60s) {
  const std::string fault = std::to_string(culprit) + " " + what;
  RankProcesses ranks(world_size, fault, scratch.path(), timeout);
  ranks.wait_for_all_but(culprit);
  Outcome outcome{.directory = scratch.path()};
  const double begin = std::stod(core::read_file(scratch.path() / "when"));
  for (std::int64_t rank = 0; rank < world_size; ++rank)
    if (const std::string time = outcome.text(rank, ".time"); rank != culprit && time != "nothing")
      outcome.latest_s = std::max(outcome.latest_s, std::stod(time) - begin);
  UNSCOPED_INFO(fault << " of " << world_size << ": known to all after " << outcome.latest_s
                      << " s: " << outcome.text(culprit == 0 ? 1 : 0));
  return outcome;
}

TEST_CASE("a killed rank is named by the others", "[comm]") {
  const testing::TemporaryDirectory scratch;
  const Outcome outcome = outcome_of(3, 1, "kill", scratch);
  for (const std::int64_t rank : {0, 2})
    REQUIRE_THAT(outcome.text(rank),
                 Catch::StartsWith("rank 1 on ") && Catch::EndsWith("is gone (killed?) since step 3"));
}

TEST_CASE("rank 0, killed with the store that it keeps, is named by the others", "[comm]") {
  const testing::TemporaryDirectory scratch;
  const Outcome outcome = outcome_of(3, 0, "kill", scratch);
  for (const std::int64_t rank : {1, 2})
    REQUIRE_THAT(outcome.text(rank),
                 Catch::StartsWith("rank 0 on ") && Catch::Contains("is gone (killed?) since step"));
}

TEST_CASE("a stopped rank is named when the time is over, with the collective that it never came to", "[comm]") {
  const testing::TemporaryDirectory scratch;
  const Outcome outcome = outcome_of(2, 1, "stop", scratch, 8s);
  REQUIRE_THAT(outcome.text(0), Catch::StartsWith("rank 1 on ") &&
                                    Catch::Contains("hangs: no sign of life since step 3") &&
                                    Catch::Contains("its last was all_reduce #3 of all ranks (3.9 KiB)"));
  REQUIRE_THAT(outcome.text(0, ".collectives"),
               Catch::Contains("step 3: all_reduce #4 of all ranks (3.9 KiB)") && Catch::Contains("failed after"));
}

TEST_CASE("rank 0, stopped with the store that it keeps, is named by the others", "[comm]") {
  const testing::TemporaryDirectory scratch;
  const Outcome outcome = outcome_of(2, 0, "stop", scratch, 8s);
  REQUIRE_THAT(outcome.text(1), Catch::StartsWith("rank 0 on ") && Catch::Contains("hangs: the store that it keeps"));
}

TEST_CASE("a rank that is busy elsewhere is named when the time is over", "[comm]") {
  const testing::TemporaryDirectory scratch;
  const Outcome outcome = outcome_of(2, 1, "sleep", scratch, 8s);
  REQUIRE_THAT(outcome.text(0), Catch::StartsWith("rank 1 on ") &&
                                    Catch::Contains("never came to all_reduce #4 of all ranks (3.9 KiB) at step 3") &&
                                    Catch::Contains("its last was all_reduce #3"));
}

TEST_CASE("what a rank failed of reaches the others' last words", "[comm]") {
  for (const std::int64_t culprit : {0, 2}) {
    const testing::TemporaryDirectory scratch;
    const Outcome outcome = outcome_of(3, culprit, "throw", scratch);
    for (std::int64_t rank = 0; rank < 3; ++rank)
      REQUIRE_THAT(outcome.text(rank),
                   Catch::StartsWith("rank " + std::to_string(culprit) + " on ") &&
                       Catch::EndsWith("failed at step 3: cannot write a.bin: No space left on device"));
  }
}

TEST_CASE("a rank that ends its run early is named", "[comm]") {
  const testing::TemporaryDirectory scratch;
  const Outcome outcome = outcome_of(2, 1, "leave", scratch);
  REQUIRE_THAT(outcome.text(0), Catch::StartsWith("rank 1 on ") && Catch::Contains("ended its run at step 3"));
}

}  // namespace
}  // namespace trainctl::comm
