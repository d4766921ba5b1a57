#include "local_ranks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "core/error.h"
#include "core/local_ranks.h"
#include "core/stop_signals.h"
#include "core/terminal.h"
#include "machine/limits.h"
#include "rank_process.h"

namespace trainctl::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Time for the other ranks to diagnose and report the failure.
constexpr std::chrono::milliseconds kReportTime{10'000};

/// The signals that a launcher waits for. SIGPIPE is one of them for the launcher's own output, too: the launcher must
/// not end of it while a rank saves.
sigset_t launcher_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : core::kStopSignals) sigaddset(&signals, number);
  sigaddset(&signals, SIGCHLD);
  return signals;
}

std::int64_t share_of_cores(std::int64_t num_ranks) {
  return std::max<std::int64_t>(1, machine::usable_cores() / num_ranks);
}

std::map<std::string, std::string> environment_of(std::int64_t rank, std::int64_t num_ranks,
                                                  const core::Listener& listener) {
  std::map<std::string, std::string> environment{{core::kParentVariable, std::to_string(::getpid())},
                                                 {"RANK", std::to_string(rank)},
                                                 {"LOCAL_RANK", std::to_string(rank)},
                                                 {"WORLD_SIZE", std::to_string(num_ranks)},
                                                 {"LOCAL_WORLD_SIZE", std::to_string(num_ranks)},
                                                 {"MASTER_ADDR", "127.0.0.1"},
                                                 {"MASTER_PORT", std::to_string(listener.port())}};
  if (rank == 0) environment[core::kListenVariable] = std::to_string(kInheritedDescriptor);
  if (std::getenv("OMP_NUM_THREADS") == nullptr)
    environment["OMP_NUM_THREADS"] = std::to_string(share_of_cores(num_ranks));
  return environment;
}

/// All ranks and their exit states.
class LocalRanks {
 public:
  explicit LocalRanks(std::int64_t num_ranks) {
    const core::Listener listener;
    for (std::int64_t rank = 0; rank < num_ranks; ++rank)
      ranks_.emplace_back(rank, environment_of(rank, num_ranks, listener), rank == 0 ? listener.descriptor() : -1);
  }

  int wait() {
    const sigset_t signals = launcher_signals();
    while (any_is_running()) {
      // One SIGCHLD may stand for several ended ranks, so poll again soon.
      const timespec limit{.tv_sec = 0, .tv_nsec = 50'000'000};
      const int number = ::sigtimedwait(&signals, nullptr, &limit);
      if (number > 0 && number != SIGCHLD) forward(number);
      collect();
      if (first_failed_ && Clock::now() > give_up_) forward(SIGKILL);
    }
    return first_failed_ ? ranks_[*first_failed_].exit_code() : exit_code_of_stopped();
  }

 private:
  bool any_is_running() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return rank.is_running(); });
  }

  void forward(int number) {
    for (const RankProcess& rank : ranks_) rank.signal(number);
  }

  void collect() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      RankProcess& rank = ranks_[i];
      int status = 0;
      if (!rank.is_running() || ::waitpid(rank.pid(), &status, WNOHANG) != rank.pid()) continue;
      rank.set_ended(status);
      if (!first_failed_ && has_failed(rank)) note_failure(i);
    }
  }

  /// Whether the rank has failed. A rank that saved and then stopped on a signal has not; others may still be saving.
  static bool has_failed(const RankProcess& rank) {
    const int code = rank.exit_code();
    return rank.was_killed() ||
           (code != core::kExitDone && std::ranges::find(core::kStopSignals, code - 128) == core::kStopSignals.end());
  }

  void note_failure(std::size_t rank) {
    first_failed_ = rank;
    give_up_ = Clock::now() + kReportTime;
    const RankProcess& failed = ranks_[rank];
    std::string text;
    if (failed.was_killed()) {
      const int number = failed.exit_code() - 128;
      text = "trainctl: rank " + std::to_string(rank) + " was ended by signal " + std::to_string(number) + " (" +
             ::strsignal(number) + (number == SIGKILL ? "; by a person, or for want of memory?)" : ")") + "\n";
    }
    text += failed.output();
    core::print(stderr, "%s", text.c_str());
  }

  int exit_code_of_stopped() const {
    for (const RankProcess& rank : ranks_)
      if (rank.exit_code() != core::kExitDone) return rank.exit_code();
    return core::kExitDone;
  }

  std::vector<RankProcess> ranks_;
  std::optional<std::size_t> first_failed_;
  Clock::time_point give_up_;
};

}  // namespace

bool is_local_rank() {
  const char* parent = std::getenv(core::kParentVariable);
  return parent != nullptr && parent == std::to_string(::getppid());
}

void refuse_other_launcher(const std::string& option) {
  for (const char* name : {"TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0' || std::string(value) == "1") continue;
    throw core::Error(option + " starts the ranks itself, but a launcher has already started this process (" + name +
                      "=" + value + ")")
        .hint("leave out " + option + ", or the launcher");
  }
}

int run_local_ranks(std::int64_t num_ranks) {
  refuse_other_launcher("--nproc");
  const sigset_t signals = launcher_signals();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);  // sigtimedwait takes them one by one
  return LocalRanks(num_ranks).wait();
}

}  // namespace trainctl::cli
