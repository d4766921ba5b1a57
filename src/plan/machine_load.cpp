#include "plan/machine_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

namespace trainctl {
namespace {

namespace fs = std::filesystem;

constexpr double kSliceSeconds = 0.003;  // that a thread waits after a switch, by the scheduler's defaults

/// By schedstat: nanoseconds on a CPU, nanoseconds ready to run, number of slices.
std::optional<double> waited_seconds() {
  std::error_code failed;
  double nanoseconds = 0;
  bool is_known = false;
  for (const fs::directory_entry& thread : fs::directory_iterator("/proc/self/task", failed)) {
    std::ifstream file(thread.path() / "schedstat");
    double ran = 0;
    double waited = 0;
    if (!(file >> ran >> waited)) continue;
    is_known = is_known || ran > 0;
    nanoseconds += waited;
  }
  return is_known ? std::optional(nanoseconds / 1e9) : std::nullopt;
}

double switched_seconds() {
  rusage usage{};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? kSliceSeconds * static_cast<double>(usage.ru_nivcsw) : 0;
}

/// The first line of /proc/stat: "cpu user nice system idle iowait irq softirq steal …", in ticks of all CPUs.
double stolen_seconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  file >> name;
  double ticks = 0;
  for (int column = 0; column < 8; ++column)
    if (!(file >> ticks)) return 0;
  const auto cpus = static_cast<double>(std::max(1U, std::thread::hardware_concurrency()));
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK)) / cpus;
}

}  // namespace

LoadCounters read_load_counters() {
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now().time_since_epoch();
  return {
      .wall_s = wall.count(), .waited_s = waited_seconds().value_or(switched_seconds()), .stolen_s = stolen_seconds()};
}

double taken_share(const LoadCounters& begin, const LoadCounters& end) {
  const double wall = end.wall_s - begin.wall_s;
  const double taken = end.waited_s - begin.waited_s + end.stolen_s - begin.stolen_s;
  return wall <= 0 ? 0 : std::clamp(taken / wall, 0.0, 1.0);
}

}  // namespace trainctl
