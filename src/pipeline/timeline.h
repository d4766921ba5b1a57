// When each rank of a pipeline computes, by the time that its actions take.
#pragma once

#include <functional>
#include <vector>

#include "pipeline/schedule.h"

namespace trainctl::pipeline {

/// Times are in any unit, from the beginning of the step.
struct TimedAction {
  Action action;
  double begin = 0;
  double end = 0;
};

struct Timeline {
  std::vector<std::vector<TimedAction>> ranks;
  double duration = 0;  // until the last action ends

  /// The share of the duration in which a rank doesn't compute.
  double bubble(std::size_t rank) const;
  /// The mean over ranks.
  double bubble() const;
};

struct TimelineCosts {
  std::function<double(const Action&)> compute;
  double transfer = 0;  // from the end of a computation until another rank has its result
};

/// How long each rank waits for results that other ranks have made, and that are under way. `timeline`: of real times.
std::vector<double> transfer_times(const Schedule& schedule, const Timeline& timeline);

/// Each rank works through its list, and waits where a result isn't there yet. Throws Error as operations_of() does.
Timeline simulate(const Schedule& schedule, const TimelineCosts& costs);

}  // namespace trainctl::pipeline
