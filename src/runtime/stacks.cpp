#include "runtime/stacks.h"

#include <backtrace.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

namespace trainctl::runtime {
namespace {

using namespace std::chrono_literals;
constexpr int kMaxFrames = 64;
constexpr auto kAnswerTimeout = 200ms;

/// Buffer for the stack of the requested thread. It is never freed, since a thread may answer late.
struct Answer {
  std::atomic<int> thread = 0;  // requested thread; 0: none
  std::atomic<int> num_frames = -1;
  std::array<void*, kMaxFrames> frames{};
};

/// Returns the global answer, since a signal handler is a plain function.
Answer& answer() {
  static Answer* const kept = new Answer;
  return *kept;
}

void write_stack(int) {
  const int error = errno;
  Answer& to = answer();
  int self = static_cast<int>(::syscall(SYS_gettid));
  if (to.thread.compare_exchange_strong(self, -self)) to.num_frames = ::backtrace(to.frames.data(), kMaxFrames);
  errno = error;
}

std::vector<void*> stack_of(int thread, int signal) {
  Answer& from = answer();
  from.num_frames = -1;
  from.thread = thread;
  if (::syscall(SYS_tgkill, ::getpid(), thread, signal) != 0) return {};
  const auto deadline = std::chrono::steady_clock::now() + kAnswerTimeout;
  while (from.num_frames < 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
  const int expected = thread;
  int asked = expected;
  // A late thread finds that its request is withdrawn.
  if (from.num_frames < 0 && from.thread.compare_exchange_strong(asked, 0)) return {};
  while (from.num_frames < 0) std::this_thread::sleep_for(1ms);
  return std::vector<void*>(from.frames.begin(), from.frames.begin() + from.num_frames);
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result.substr(0, 200);
}

void ignore_error(void*, const char*, int) {}

/// The function's mangled name from the symbol tables of all files, "" if there is none.
std::string symbol_at(const void* address) {
  static backtrace_state* const state = backtrace_create_state(nullptr, /*threaded=*/1, ignore_error, nullptr);
  std::string name;
  const auto keep = [](void* to, std::uintptr_t, const char* symbol, std::uintptr_t, std::uintptr_t) {
    if (symbol != nullptr) *static_cast<std::string*>(to) = symbol;
  };
  if (state != nullptr) backtrace_syminfo(state, reinterpret_cast<std::uintptr_t>(address), keep, ignore_error, &name);
  return name;
}

/// The function's name and its file. The linker knows exported functions without the symbol tables.
std::string name_of(const void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "?";
  const std::string file = std::filesystem::path(info.dli_fname).filename().string();
  const std::string name = info.dli_sname != nullptr ? info.dli_sname : symbol_at(address);
  return (name.empty() ? "?" : demangled(name)) + "  (" + file + ")";
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Returns the thread's state from the letter after the name: R, S, D, ….
std::string state_of(const std::filesystem::path& task) {
  const std::string line = first_line(task / "stat");
  const std::size_t bracket = line.rfind(')');
  const char letter = bracket == std::string::npos || bracket + 2 >= line.size() ? '?' : line[bracket + 2];
  switch (letter) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "waiting for a disk or the like";
    default:
      return std::string("in state ") + letter;
  }
}

std::string text_of(const std::vector<void*>& frames, std::size_t skipped) {
  if (frames.empty()) return "  no answer\n";
  std::string text;
  for (std::size_t i = std::min(skipped, frames.size()); i < frames.size(); ++i) {
    // A return address may be one past the end of its function.
    text += "  " + name_of(static_cast<const char*>(frames[i]) - 1) + "\n";
  }
  return text;
}

}  // namespace

std::string stacks_of_all_threads() {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const int signal = SIGRTMIN + 7;
  struct sigaction action {};
  struct sigaction former {};
  action.sa_handler = &write_stack;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  std::array<void*, kMaxFrames> own{};
  // This call also loads the unwinder, which a signal handler must not do.
  const int num_own = ::backtrace(own.data(), kMaxFrames);
  if (::sigaction(signal, &action, &former) != 0) return "";
  std::string text;
  const int self = static_cast<int>(::syscall(SYS_gettid));
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const int thread = std::atoi(task.path().filename().c_str());
    if (thread == self) continue;
    const std::string title = "thread " + std::to_string(thread) + " " + first_line(task.path() / "comm") + ", " +
                              state_of(task.path()) + "\n";
    text += title + text_of(stack_of(thread, signal), 2) + "\n";
  }
  // The handler stays installed: a thread that has not answered may still receive the signal.
  return text + "thread " + std::to_string(self) + ", which writes this\n" +
         text_of(std::vector<void*>(own.begin(), own.begin() + num_own), 1);
}

}  // namespace trainctl::runtime
