#include "tracking/child_process.h"

#include <spawn.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "core/stop_signals.h"

namespace trainctl::tracking {
namespace {

/// Attributes of a child that signals of the terminal and of a job's end don't reach.
class SpawnAttributes {
 public:
  SpawnAttributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t blocked;
    sigemptyset(&blocked);
    for (const int signal : core::kStopSignals) sigaddset(&blocked, signal);
    ::posix_spawnattr_setsigmask(&attributes_, &blocked);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes_); }
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

}  // namespace

pid_t spawn_child(const std::string& program, std::vector<std::string> words, int input, int output) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions{};
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  const SpawnAttributes attributes;
  pid_t process = -1;
  const int code = ::posix_spawn(&process, program.c_str(), &actions, attributes.get(), arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (code != 0) throw core::Error("cannot start " + program + ": " + std::strerror(code));
  return process;
}

std::string own_program() {
  const std::string link = "/proc/self/exe";
  const std::filesystem::path program = std::filesystem::read_symlink(link);
  std::error_code unreadable;
  return std::filesystem::exists(program, unreadable) ? program.string() : link;
}

}  // namespace trainctl::tracking
