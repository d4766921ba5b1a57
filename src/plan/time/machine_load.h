// Whether other programs, or the hypervisor, take time from what this process measures.
#pragma once

#include <functional>

namespace trainctl::plan {

/// What the system has counted until now, in seconds.
struct LoadCounters {
  double ran_s = 0;     // this process's threads had a CPU, all together
  double waited_s = 0;  // they were ready to run and had none
  double stolen_s = 0;  // the hypervisor ran something else, as a mean over the CPUs
};

/// Reads /proc; where the kernel doesn't count waiting, each involuntary switch of a thread stands for a time slice.
LoadCounters read_load_counters();

using LoadReader = std::function<LoadCounters()>;

/// The share of the time between two readings in which this process was ready to run and something else did.
double taken_share(const LoadCounters& begin, const LoadCounters& end);

/// The share from which on a measurement isn't kept.
inline constexpr double kBusyShare = 0.05;

}  // namespace trainctl::plan
