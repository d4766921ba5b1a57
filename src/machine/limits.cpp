#include "machine/limits.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "machine/kernel_files.h"

namespace trainctl::machine {
namespace {

namespace fs = std::filesystem;

/// Value of a missing limit in version 1: the largest multiple of a page in a signed word.
constexpr double kNoLimit = 0x1p62;

/// Returns the directories of this process's group and of all groups above it, since the limits of each apply.
std::vector<fs::path> control_groups(const KernelDirectories& directories, std::string_view controller) {
  std::vector<fs::path> groups;
  std::istringstream lines(text_or_empty(directories.proc / "self/cgroup"));
  for (std::string line; std::getline(lines, line);) {  // "0::/path", or "4:cpu,cpuacct:/path" in version 1
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find("," + std::string(controller) + ",") == std::string::npos) continue;
    const fs::path root = unified ? directories.cgroup : directories.cgroup / controller;
    std::string path = line.substr(second + 1);
    while (!path.empty() && path != "/") {
      groups.push_back(root.string() + path);
      path.erase(path.rfind('/'));
    }
    groups.push_back(root);  // in a container, the group's own path may be invisible: its root is the group
  }
  return groups;
}

void keep_least(std::optional<GroupLimit>& least, double value, const fs::path& file) {
  if (value > 0 && value < kNoLimit && (!least || value < least->value)) least = GroupLimit{value, file};
}

}  // namespace

std::optional<GroupLimit> group_cpu_quota(const KernelDirectories& directories) {
  std::optional<GroupLimit> least;
  for (const fs::path& group : control_groups(directories, "cpu")) {
    std::istringstream unified(text_or_empty(group / "cpu.max"));  // "quota period" in microseconds
    double quota = 0;
    double period = 0;
    if (unified >> quota >> period && period > 0) keep_least(least, quota / period, group / "cpu.max");
    const auto old_quota = leading_number(text_or_empty(group / "cpu.cfs_quota_us"));
    const auto old_period = leading_number(text_or_empty(group / "cpu.cfs_period_us"));
    if (old_quota && old_period && *old_period > 0)
      keep_least(least, *old_quota / *old_period, group / "cpu.cfs_quota_us");
  }
  return least;
}

std::optional<GroupLimit> group_memory_limit(const KernelDirectories& directories) {
  std::optional<GroupLimit> least;
  for (const fs::path& group : control_groups(directories, "memory"))
    for (const char* name : {"memory.max", "memory.limit_in_bytes"})
      if (const auto limit = leading_number(text_or_empty(group / name))) keep_least(least, *limit, group / name);
  return least;
}

std::int64_t cores_in_affinity() {
  std::size_t num_cpus = 1024;
  for (; num_cpus <= (std::size_t{1} << 20); num_cpus *= 2) {  // the mask must be as large as the kernel's
    cpu_set_t* set = CPU_ALLOC(num_cpus);
    const bool known = ::sched_getaffinity(0, CPU_ALLOC_SIZE(num_cpus), set) == 0;
    const int cores = known ? CPU_COUNT_S(CPU_ALLOC_SIZE(num_cpus), set) : 0;
    CPU_FREE(set);
    if (known) return std::max(1, cores);
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

std::int64_t usable_cores() {
  auto cores = static_cast<double>(cores_in_affinity());
  if (const auto quota = group_cpu_quota()) cores = std::min(cores, std::ceil(quota->value));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(cores));
}

std::size_t usable_memory() {
  struct ::sysinfo info {};
  double bytes = kNoLimit;
  if (::sysinfo(&info) == 0)
    bytes = (static_cast<double>(info.totalram) + static_cast<double>(info.totalswap)) * info.mem_unit;
  if (const auto limit = group_memory_limit()) bytes = std::min(bytes, limit->value);
  return static_cast<std::size_t>(bytes);
}

std::size_t memory_for_tensors(const KernelDirectories& directories) {
  const auto limit = group_memory_limit(directories);
  const std::size_t usable = usable_memory();
  if (!limit || limit->value > static_cast<double>(usable)) return usable;
  constexpr double kKiB = 1024;
  constexpr double kReserve = 64 * kKiB * kKiB;
  const std::string status = text_or_empty(directories.proc / "self/status");
  const double held = kKiB * leading_number(value_of_key(status, "RssAnon")).value_or(0);
  return static_cast<std::size_t>(std::max(limit->value / 4, limit->value - held - kReserve));
}

void require_stack() {
  constexpr rlim_t kLeast = 256 << 10;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeast) return;
  throw core::Error("this process may use " + core::format_bytes(static_cast<double>(limit.rlim_cur)) +
                    " of stack, and needs " + core::format_bytes(static_cast<double>(kLeast)))
      .hint("ulimit -s 8192, which is usual");
}

void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // where it is refused, the usual limit may do
}

void require_address_space() {
  constexpr rlim_t kLeast =
      640 << 20;  // LibTorch 2.11's libraries take 472 MiB, the first threads and buffers the rest
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (limit.rlim_cur < kLeast)
    throw core::Error("this process may use " + core::format_bytes(static_cast<double>(limit.rlim_cur)) +
                      " of address space, and LibTorch needs " + core::format_bytes(static_cast<double>(kLeast)))
        .hint("more address space: 'ulimit -v unlimited' lifts the shell's limit");
  std::signal(SIGSEGV, [](int) {
    constexpr std::string_view kWords =
        "trainctl: a segmentation fault: out of memory? 'ulimit -v' limits this process's address space\n"
        "  try: 'ulimit -v unlimited' lifts the limit; a smaller batch or model takes less\n";
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kWords.data(), kWords.size());
    ::_exit(core::kExitFailed);
  });
}

}  // namespace trainctl::machine
