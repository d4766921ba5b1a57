#include "rank_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/file.h"

namespace trainctl::cli {
namespace {

std::vector<std::string> own_command_line() {
  const std::string bytes = core::read_file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < bytes.size(); begin = bytes.find('\0', begin) + 1)
    words.emplace_back(bytes.c_str() + begin);
  return words;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

struct Descriptors {
  int output = -1;
  int inherited = -1;
};

/// Runs in the child. Only functions that are safe between fork and exec may be called.
[[noreturn]] void become(const std::string& program, const std::vector<char*>& arguments,
                         const std::vector<char*>& environment, Descriptors descriptors, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(core::kExitFailed);
  // Own process group: the terminal's Ctrl-C reaches the ranks once, through the parent.
  ::setpgid(0, 0);
  if (descriptors.output >= 0) {
    ::dup2(descriptors.output, STDOUT_FILENO);
    ::dup2(descriptors.output, STDERR_FILENO);
  }
  if (descriptors.inherited == kInheritedDescriptor)
    ::fcntl(kInheritedDescriptor, F_SETFD, 0);  // already in place, but marked close-on-exec
  else if (descriptors.inherited >= 0)
    ::dup2(descriptors.inherited, kInheritedDescriptor);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(program.c_str(), arguments.data(), environment.data());
  ::_exit(core::kExitFailed);
}

}  // namespace

RankProcess::RankProcess(std::int64_t rank, const std::map<std::string, std::string>& environment, int inherited) {
  if (rank > 0) {
    output_ = ::memfd_create("trainctl rank", MFD_CLOEXEC);
    if (output_ < 0) throw core::system_error("make a file in memory for", "a rank's output");
    ::fcntl(output_, F_SETFL, O_APPEND);
  }
  std::vector<std::string> words = own_command_line();
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (!environment.contains(text.substr(0, text.find('=')))) variables.push_back(text);
  }
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  const std::vector<char*> arguments = pointers(words);
  const std::vector<char*> all_variables = pointers(variables);
  // The real path, so that `ps` shows the program's name.
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(program, arguments, all_variables, {output_, inherited}, parent);
  if (pid_ < 0) throw core::system_error("start", "rank " + std::to_string(rank));
}

RankProcess::RankProcess(RankProcess&& other) noexcept
    : pid_(other.pid_),
      output_(std::exchange(other.output_, -1)),
      status_(other.status_),
      is_running_(std::exchange(other.is_running_, false)) {}

RankProcess::~RankProcess() {
  if (is_running_) {  // the parent gives up
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (output_ >= 0) ::close(output_);
}

void RankProcess::signal(int number) const {
  if (is_running_) ::kill(pid_, number);
}

void RankProcess::set_ended(int status) {
  status_ = status;
  is_running_ = false;
}

int RankProcess::exit_code() const {
  return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
}

bool RankProcess::was_killed() const {
  return WIFSIGNALED(status_);
}

std::string RankProcess::output() const {
  if (output_ < 0) return "";
  std::string text(static_cast<std::size_t>(::lseek(output_, 0, SEEK_END)), '\0');
  const ssize_t size = ::pread(output_, text.data(), text.size(), 0);
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return text;
}

}  // namespace trainctl::cli
