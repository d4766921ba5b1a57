// Steps of single ranks on this device, with real values and without the other ranks: what each would compute, and when
// it would communicate.
#pragma once

#include <vector>

#include "experiment/experiment.h"
#include "replay/trace.h"
#include "tracking/event.h"

namespace trainctl::plan {

struct RehearsalOptions {
  std::int64_t world = 1;
  std::int64_t per_node = 1;  // ranks
  std::int64_t warmup = 2;    // steps before those that are recorded
  std::int64_t steps = 5;
};

/// Returns a step of the first rank at each place of the pipeline: the medians of several steps. The other ranks at
/// that place compute alike. Opens the data, and initialises the weights of one rank after the other. Sums of ddp are
/// recorded as c10d's Reducer starts them, and take no time of the device. Throws Error for replicas in threads.
std::vector<replay::RankTrace> rehearse(const experiment::Experiment& experiment, const RehearsalOptions& options,
                                        std::vector<tracking::Notice>& notices);

}  // namespace trainctl::plan
