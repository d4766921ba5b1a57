#include "comm/launch/process.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

namespace trainctl::comm {
namespace {

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string this_machine() {
  std::string boot = content("/proc/sys/kernel/random/boot_id");
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  std::array<char, 64> name{};  // "pid:[4026531836]"
  const ssize_t length = ::readlink("/proc/self/ns/pid", name.data(), name.size() - 1);
  return boot + "/" + (length > 0 ? name.data() : "");
}

struct Stat {
  char state = '?';
  std::int64_t start_time = 0;
};

/// Reads a process's start time and state; empty if the process is absent. The name, in parentheses, may contain any
/// character (proc_pid_stat(5)).
std::optional<Stat> stat_of(std::int64_t number) {
  const std::string text = content("/proc/" + std::to_string(number) + "/stat");
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end_of_name + 1));
  Stat stat;
  fields >> stat.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> stat.start_time;
  return stat;
}

ProcessId process_of(std::int64_t number) {
  const std::optional<Stat> stat = number > 0 ? stat_of(number) : std::nullopt;
  if (!stat) return {};
  return {.machine = this_machine(), .number = number, .start_time = stat->start_time};
}

}  // namespace

ProcessId own_process() {
  return process_of(::getpid());
}

ProcessId parent_process() {
  return process_of(::getppid());
}

std::string text_of(const ProcessId& process) {
  return process.machine + "/" + std::to_string(process.number) + "/" + std::to_string(process.start_time);
}

bool has_ended(const ProcessId& process) {
  if (process.number <= 0 || process.machine != this_machine()) return false;
  const std::optional<Stat> stat = stat_of(process.number);
  return !stat || stat->start_time != process.start_time || stat->state == 'Z' || stat->state == 'X';
}

bool is_stopped(const ProcessId& process) {
  if (process.number <= 0 || process.machine != this_machine()) return false;
  const std::optional<Stat> stat = stat_of(process.number);
  return stat && stat->start_time == process.start_time && (stat->state == 'T' || stat->state == 't');
}

bool end_by_force(const ProcessId& process) {
  const bool is_here = process.number > 0 && process.machine == this_machine();
  if (!is_here || process.number == ::getpid() || has_ended(process)) return false;
  return ::kill(static_cast<pid_t>(process.number), SIGKILL) == 0;
}

}  // namespace trainctl::comm
