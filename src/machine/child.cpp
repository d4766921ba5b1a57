#include "machine/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>

#include "core/error.h"
#include "core/text.h"

namespace trainctl::machine {
namespace {

using Clock = std::chrono::steady_clock;

/// Pipe whose ends close with the object.
class Pipe {
 public:
  Pipe() : made_(::pipe2(ends_.data(), O_CLOEXEC) == 0) {}
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  bool is_made() const { return made_; }
  int reading_end() const { return ends_[0]; }
  int writing_end() const { return ends_[1]; }
  void close_reading_end() { close_end(0); }
  void close_writing_end() { close_end(1); }

  /// Appends the available bytes to `text`; closes the reading end at the end of the data.
  void read_into(std::string& text) {
    std::array<char, 4096> block;
    const ssize_t count = ::read(ends_[0], block.data(), block.size());
    if (count > 0)
      text.append(block.data(), static_cast<std::size_t>(count));
    else if (count == 0 || errno != EINTR)
      close_end(0);
  }

 private:
  void close_end(std::size_t end) {
    if (ends_[end] >= 0) ::close(ends_[end]);
    ends_[end] = -1;
  }

  std::array<int, 2> ends_{-1, -1};
  bool made_;
};

[[noreturn]] void become(const std::function<int()>& work, pid_t parent, int output, int errors) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  int code = 1;
  try {
    code = work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", core::as_error(error).what());
  }
  std::fflush(nullptr);
  ::_exit(code);
}

/// Reads both pipes until the child closes them. Returns false if `end` came first.
bool read_until(Pipe& output, Pipe& errors, Clock::time_point end, std::string& out, std::string& err) {
  while (output.reading_end() >= 0 || errors.reading_end() >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    std::array<pollfd, 2> ends{{{output.reading_end(), POLLIN, 0}, {errors.reading_end(), POLLIN, 0}}};
    if (::poll(ends.data(), ends.size(), static_cast<int>(left)) < 0 && errno != EINTR) return false;
    if (ends[0].revents != 0) output.read_into(out);
    if (ends[1].revents != 0) errors.read_into(err);
  }
  return true;
}

std::string last_line(const std::string& text) {
  const std::string_view lines = core::trimmed(text, " \t\r\n");
  const auto end = lines.rfind('\n');
  return std::string(end == std::string_view::npos ? lines : lines.substr(end + 1));
}

std::string problem_of(int status, const std::string& errors) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (WIFSIGNALED(status))
    return "signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) + ") ended the probe";
  const std::string said = last_line(errors);
  return said.empty() ? "the probe ended with " + std::to_string(WEXITSTATUS(status)) : said;
}

}  // namespace

ChildOutcome run_in_child(const std::function<int()>& work, std::chrono::milliseconds limit) {
  Pipe output;
  Pipe errors;
  if (!output.is_made() || !errors.is_made()) return {"", std::string("cannot make a pipe: ") + std::strerror(errno)};
  const pid_t parent = ::getpid();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return {"", std::string("cannot start a process: ") + std::strerror(errno)};
  if (child == 0) become(work, parent, output.writing_end(), errors.writing_end());
  output.close_writing_end();
  errors.close_writing_end();

  ChildOutcome outcome;
  std::string err;
  const bool in_time = read_until(output, errors, Clock::now() + limit, outcome.output, err);
  if (!in_time) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  outcome.problem =
      in_time ? problem_of(status, err)
              : "the probe took longer than " + core::format_duration(std::chrono::duration<double>(limit).count());
  return outcome;
}

}  // namespace trainctl::machine
