#include "measured_process.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <sstream>

#include "core/error.h"
#include "core/terminal.h"

namespace trainctl::cli {
namespace {

class TemporaryFile {
 public:
  TemporaryFile() : file_(std::tmpfile()) {
    if (file_ == nullptr) throw core::system_error("make", "a temporary file");
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::fclose(file_); }
  int descriptor() const { return ::fileno(file_); }
  std::string text() {
    std::rewind(file_);
    std::string all;
    std::array<char, 4096> block{};
    for (std::size_t count = 0; (count = std::fread(block.data(), 1, block.size(), file_)) > 0;)
      all.append(block.data(), count);
    if (std::ferror(file_) != 0) throw core::system_error("read", "a temporary file");
    return all;
  }

 private:
  std::FILE* file_;
};

[[noreturn]] void become(const EngineCall& call, pid_t parent, int output, int errors) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  int code = 1;
  try {
    code = call_engine(call);
  } catch (const std::exception& error) {
    core::print(stderr, "%s\n", core::as_error(error).text().c_str());
  }
  std::fflush(nullptr);
  ::_exit(code);
}

/// Returns the last message: a line, with the indented lines after it, such as what to try.
std::string last_message(const std::string& text) {
  std::istringstream lines(text);
  std::string message;
  for (std::string line; std::getline(lines, line);) {
    const bool goes_on = line.starts_with(' ') && !message.empty();
    message = goes_on ? message + "\n" + line : line;
  }
  return message;
}

}  // namespace

std::string output_of_process(const EngineCall& call, const std::string& what) {
  TemporaryFile output;
  TemporaryFile errors;
  const pid_t parent = ::getpid();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw core::system_error("start a process for", what);
  if (child == 0) become(call, parent, output.descriptor(), errors.descriptor());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw core::system_error("wait for", what);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output.text();
  const std::string said = last_message(errors.text());
  throw core::Error(what + " failed: " +
                    (!said.empty()         ? said
                     : WIFSIGNALED(status) ? "ended by signal " + std::to_string(WTERMSIG(status))
                                           : "exit code " + std::to_string(WEXITSTATUS(status))));
}

}  // namespace trainctl::cli
