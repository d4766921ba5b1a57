// Recorded ranks, replayed together on a network that need not be there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "replay/trace.h"

namespace trainctl::replay {

/// What a communication takes: the links of its ranks while its bytes pass, then a delay in which they are free.
struct Cost {
  double link_s = 0;
  double delay_s = 0;
  double device_share = 0;  // that the bytes take of the device, of what it computes meanwhile
};

/// A rank's step, in seconds. Computing, bubble, exposed communication and the rest of the step make its whole.
struct RankTime {
  std::int64_t rank = 0;
  double compute_s = 0;                     // with what communication beside it takes
  double bubble_s = 0;                      // it waits for ranks that have not come so far
  std::map<std::string, double> exposed_s;  // it waits for what is under way, by axes
  double total_s = 0;                       // until its last event, and what it computes after that

  double all_exposed_s() const;
};

struct StepReplay {
  std::vector<RankTime> ranks;  // those that were recorded
  double step_s = 0;            // of the rank that ends last
};

/// Replays a step. Ranks that were not recorded do as the recorded one that they communicate with does, at the same
/// time. A collective begins when all have started it, and the links that it needs are free: a rank has one, which
/// sends. Throws Error if recorded ranks wait for each other.
StepReplay replay(const std::vector<RankTrace>& traces, const std::function<Cost(const Communication&)>& cost);

}  // namespace trainctl::replay
