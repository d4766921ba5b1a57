#include "runtime/machine.h"

#include <sched.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

namespace trainctl {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Our group and all above it, in the hierarchy that holds `controller`: limits of any of them bind.
std::vector<std::string> control_groups(std::string_view controller) {
  std::vector<std::string> directories;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "0::/path", or "4:cpu,cpuacct:/path" in version 1
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find("," + std::string(controller) + ",") == std::string::npos) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + std::string(controller);
    std::string path = line.substr(second + 1);
    while (!path.empty() && path != "/") {
      directories.push_back(root + path);
      path.erase(path.rfind('/'));
    }
    directories.push_back(root);  // in a container the group's own path may not be visible: its root is the group
  }
  return directories;
}

std::optional<double> number_in(const std::string& text) {
  std::istringstream words(text);
  double number = 0;
  if (words >> number) return number;
  return std::nullopt;  // "max", or no such file
}

/// Cores' worth of time that the group may use.
std::optional<double> cpu_quota(const std::string& group) {
  std::istringstream unified(first_line(group + "/cpu.max"));  // "quota period" in microseconds
  double quota = 0;
  double period = 0;
  if (unified >> quota >> period && period > 0) return quota / period;
  const auto old_quota = number_in(first_line(group + "/cpu.cfs_quota_us"));
  const auto old_period = number_in(first_line(group + "/cpu.cfs_period_us"));
  if (old_quota && old_period && *old_quota > 0 && *old_period > 0) return *old_quota / *old_period;
  return std::nullopt;
}

/// The value of a key in /proc/cpuinfo, from its first processor.
std::string cpu_info(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

}  // namespace

std::size_t machine_memory() {
  struct ::sysinfo info {};
  double bytes = std::numeric_limits<std::int64_t>::max() / 4;
  if (::sysinfo(&info) == 0)
    bytes = (static_cast<double>(info.totalram) + static_cast<double>(info.totalswap)) * info.mem_unit;
  for (const std::string& group : control_groups("memory"))
    for (const char* file : {"/memory.max", "/memory.limit_in_bytes"})
      if (const auto limit = number_in(first_line(group + file)); limit && *limit > 0) bytes = std::min(bytes, *limit);
  return static_cast<std::size_t>(bytes);
}

std::int64_t usable_cores() {
  auto cores = static_cast<double>(std::max(1U, std::thread::hardware_concurrency()));
  std::size_t num_cpus = 1024;
  for (; num_cpus <= (std::size_t{1} << 20); num_cpus *= 2) {  // the mask must be as large as the kernel's
    cpu_set_t* set = CPU_ALLOC(num_cpus);
    const bool known = ::sched_getaffinity(0, CPU_ALLOC_SIZE(num_cpus), set) == 0;
    if (known) cores = CPU_COUNT_S(CPU_ALLOC_SIZE(num_cpus), set);
    CPU_FREE(set);
    if (known) break;
  }
  for (const std::string& group : control_groups("cpu"))
    if (const auto quota = cpu_quota(group)) cores = std::min(cores, std::ceil(*quota));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(cores));
}

std::string cpu_name() {
  const std::string name = cpu_info("model name");
  return name.empty() ? "CPU" : name;
}

bool cpu_has(const std::string& flag) {
  std::istringstream flags(cpu_info("flags"));
  for (std::string word; flags >> word;)
    if (word == flag) return true;
  return false;
}

}  // namespace trainctl
