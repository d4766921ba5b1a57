#include "plan/time/machine_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

namespace trainctl::plan {
namespace {

namespace fs = std::filesystem;

constexpr double kSliceSeconds = 0.003;  // that a thread waits after a switch, by the scheduler's defaults

/// Sums over threads the second number of schedstat: nanoseconds on a CPU, nanoseconds ready to run, number of slices.
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

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

/// Reads the steal time of /proc/stat: "cpu user nice system idle iowait irq softirq steal …", in ticks of all CPUs.
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
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return {};
  return {.ran_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
          .waited_s = waited_seconds().value_or(kSliceSeconds * static_cast<double>(usage.ru_nivcsw)),
          .stolen_s = stolen_seconds()};
}

double taken_share(const LoadCounters& begin, const LoadCounters& end) {
  const double ran = end.ran_s - begin.ran_s;
  const double taken = std::max(0.0, end.waited_s - begin.waited_s) + std::max(0.0, end.stolen_s - begin.stolen_s);
  return ran + taken <= 0 ? 0 : std::min(1.0, taken / (ran + taken));
}

}  // namespace trainctl::plan
