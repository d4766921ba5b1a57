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
};

/// A line for people about a rank whose own time is over 1.2 times the others' median: it is what the others wait for.
struct Straggler {
  std::int64_t rank = 0;
  std::string text;
};
std::optional<Straggler> find_straggler(const std::vector<RankTime>& ranks);

class StragglerMonitor {
 public:
  explicit StragglerMonitor(comm::Group& group) : group_(group) {}

  struct Window {
    double communication_ms = 0;  // means over ranks
    double exposed_ms = 0;
    std::optional<std::string> straggler;  // slow in the window before too, and not the one that was told last
  };
  /// Called by all ranks, at the end of the same window.
  Window take_window(const Throughput::Window& pace);

 private:
  comm::Group& group_;
  std::int64_t slowest_ = -1;  // in the last window
  std::int64_t told_ = -1;
};

}  // namespace trainctl::train
