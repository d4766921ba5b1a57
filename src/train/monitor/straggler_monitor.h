// Watches how long ranks communicate, and which of them the others wait for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/group.h"
#include "train/monitor/throughput.h"

namespace trainctl::train {

/// Times of one rank: means over a window of steps, in milliseconds per step.
struct RankTime {
  double own_ms = 0;        // of the step, without waiting for other ranks
  double data_wait_ms = 0;  // of that, waiting for data
  std::int64_t stage = 0;   // its place on the pipeline axis
};

/// A line for people about a rank that others wait for. Its own time is over 1.2 times the median of the others of its
/// stage; ranks of other stages have other work.
struct Straggler {
  std::int64_t rank = 0;
  double longer_ms = 0;  // than the others' median
  std::string text;
};
/// The one that is the most longer, or none. `ranks`: by rank.
std::optional<Straggler> find_straggler(const std::vector<RankTime>& ranks);

class StragglerMonitor {
 public:
  /// `world`: all ranks. `stage`: this rank's place on the pipeline axis.
  StragglerMonitor(comm::Group& world, std::int64_t stage) : world_(world), stage_(stage) {}

  struct Window {
    double communication_ms = 0;  // means over ranks
    double exposed_ms = 0;
    std::optional<std::string> straggler;  // slow in the window before too, and not the one that was told last
  };
  /// Called by all ranks, at the end of the same window.
  Window take_window(const Throughput::Window& pace);

 private:
  comm::Group& world_;
  std::int64_t stage_;
  std::int64_t slowest_ = -1;  // in the last window
  std::int64_t told_ = -1;
};

}  // namespace trainctl::train
