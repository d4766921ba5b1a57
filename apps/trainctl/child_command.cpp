#include "child_command.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>

#include "core/error.h"
#include "core/stop_signals.h"

namespace trainctl::cli {
namespace {

/// Runs in the child. Only functions that are safe between fork and exec may be called.
[[noreturn]] void become(const std::string& program, const std::vector<char*>& words, const sigset_t& mask,
                         pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(core::kExitFailed);
  ::setpgid(0, 0);  // the terminal's Ctrl-C reaches the command once, through the parent
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execv(program.c_str(), words.data());
  ::_exit(core::kExitFailed);
}

int wait_for(pid_t child, const sigset_t& signals) {
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) != child) {
    const timespec limit{.tv_sec = 0, .tv_nsec = 50'000'000};
    const int number = ::sigtimedwait(&signals, nullptr, &limit);
    if (number > 0 && number != SIGCHLD) ::kill(child, number);
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int run_command(const std::vector<std::string>& arguments) {
  std::vector<std::string> texts{"trainctl"};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> words;
  for (std::string& text : texts) words.push_back(text.data());
  words.push_back(nullptr);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : core::kStopSignals) sigaddset(&signals, number);
  sigaddset(&signals, SIGCHLD);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &signals, &before);  // sigtimedwait takes them one by one
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) become(program, words, before, parent);
  if (child < 0) throw core::system_error("start", "trainctl " + arguments.front());
  const int code = wait_for(child, signals);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return code;
}

}  // namespace trainctl::cli
