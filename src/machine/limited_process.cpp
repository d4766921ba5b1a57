#include "machine/limited_process.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "machine/kernel_files.h"

namespace trainctl::machine {
namespace {

constexpr int kSocketOfChild = 3;
constexpr int kPatience = 10;  // a child that waits for good ends after so many times its time of the CPU
constexpr char kAnswer = 'a';
constexpr char kError = 'e';
constexpr char kOutOfMemory = 'm';

bool send_all(int socket, const void* data, std::size_t size) {
  for (const char* at = static_cast<const char*>(data); size > 0;) {
    const ssize_t count = ::send(socket, at, size, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

bool receive_all(int socket, void* data, std::size_t size) {
  for (char* at = static_cast<char*>(data); size > 0;) {
    const ssize_t count = ::recv(socket, at, size, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

/// A message is its length, its kind, and its text.
bool send_message(int socket, char kind, const std::string& text) {
  const std::uint64_t size = text.size();
  return send_all(socket, &size, sizeof size) && send_all(socket, &kind, 1) &&
         send_all(socket, text.data(), text.size());
}

std::optional<std::pair<char, std::string>> receive_message(int socket) {
  std::uint64_t size = 0;
  std::pair<char, std::string> message;
  if (!receive_all(socket, &size, sizeof size) || !receive_all(socket, &message.first, 1)) return std::nullopt;
  message.second.resize(size);
  if (!receive_all(socket, message.second.data(), size)) return std::nullopt;
  return message;
}

/// Private memory that this process may write to; RLIMIT_DATA counts it.
std::size_t data_bytes() {
  const auto kib = leading_number(value_of_key(text_or_empty("/proc/self/status"), "VmData"));
  return static_cast<std::size_t>(kib.value_or(0)) << 10;
}

void limit(int resource, rlim_t value) {
  rlimit limits{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &limits);
  limits.rlim_max = std::min(limits.rlim_max, value);
  limits.rlim_cur = limits.rlim_max;
  ::setrlimit(static_cast<__rlimit_resource>(resource), &limits);
}

void set_timer(int which, std::chrono::seconds time) {
  itimerval timer{};
  timer.it_value.tv_sec = time.count();
  ::setitimer(static_cast<__itimer_which>(which), &timer, nullptr);
}

std::pair<char, std::string> answered(const LimitedProcess::Answer& answer, const std::string& request) {
  try {
    return {kAnswer, answer(request)};
  } catch (const std::bad_alloc&) {
    return {kOutOfMemory, ""};
  } catch (const std::exception& error) {
    // LibTorch's interpreter turns what an allocator threw into an error that names it.
    for (const char* words : {"std::bad_alloc", "cannot allocate", "can't allocate"})
      if (std::strstr(error.what(), words) != nullptr) return {kOutOfMemory, ""};
    return {kError, core::as_error(error).what()};
  }
}

/// The child: answers until the other end closes. Its process has one thread, and locks that other threads held stay
/// locked, so the answer may use nothing that they share.
[[noreturn]] void serve(int socket, const LimitedProcess::Answer& answer, const ProcessLimits& limits,
                        std::size_t present_bytes) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) ::signal(signal, SIG_IGN);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGPROF, SIGALRM}) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(socket, kSocketOfChild);
  ::close_range(0, kSocketOfChild - 1, 0);
  ::close_range(kSocketOfChild + 1, ~0U, 0);
  limit(RLIMIT_DATA, present_bytes + limits.memory_bytes);
  limit(RLIMIT_NOFILE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_CORE, 0);
  while (const auto request = receive_message(kSocketOfChild)) {
    set_timer(ITIMER_PROF, limits.time);
    set_timer(ITIMER_REAL, kPatience * limits.time);
    const auto [kind, text] = answered(answer, request->second);
    set_timer(ITIMER_PROF, {});
    set_timer(ITIMER_REAL, {});
    if (!send_message(kSocketOfChild, kind, text)) break;
  }
  ::_exit(0);
}

}  // namespace

class LimitedProcess::Child {
 public:
  Child(const Answer& answer, const ProcessLimits& limits) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw core::Error(std::string("cannot make a pair of sockets: ") + std::strerror(errno));
    const std::size_t present_bytes = data_bytes();
    process_ = ::fork();
    if (process_ == 0) serve(ends[1], answer, limits, present_bytes);
    const int problem = errno;
    ::close(ends[1]);
    socket_ = ends[0];
    if (process_ < 0) {
      ::close(socket_);
      throw core::Error(std::string("cannot start a process: ") + std::strerror(problem));
    }
  }
  ~Child() {
    ::close(socket_);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Nothing if the child has ended.
  std::optional<std::pair<char, std::string>> ask(const std::string& request) {
    if (!send_message(socket_, kAnswer, request)) return std::nullopt;
    return receive_message(socket_);
  }

  /// The signal that ended the child; 0 if none did.
  int wait() {
    int status = 0;
    while (process_ > 0 && ::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  pid_t process_ = -1;
  int socket_ = -1;
};

LimitedProcess::LimitedProcess(Answer answer, ProcessLimits limits) : answer_(std::move(answer)), limits_(limits) {}
LimitedProcess::~LimitedProcess() = default;

std::string LimitedProcess::ask(const std::string& request) {
  std::unique_ptr<Child> child;
  {
    const std::scoped_lock lock(mutex_);
    if (!idle_.empty()) {
      child = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!child) child = std::make_unique<Child>(answer_, limits_);
  auto reply = child->ask(request);
  if (!reply) {
    const int signal = child->wait();
    if (signal == SIGPROF)
      throw LimitReached("takes more than " + std::to_string(limits_.time.count()) + " s; does it loop without end?");
    if (signal == SIGALRM)
      throw core::Error("the process gives no answer within " + std::to_string(kPatience * limits_.time.count()) +
                        " s");
    throw LimitReached("ends its process by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")");
  }
  {
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(child));
  }
  if (reply->first == kOutOfMemory)
    throw LimitReached("takes more than " + std::to_string(limits_.memory_bytes >> 20) + " MiB of memory");
  if (reply->first == kError) throw core::Error(std::move(reply->second));
  return std::move(reply->second);
}

}  // namespace trainctl::machine
