// The delivery of a run that goes on, by a process of its own. Nothing that a tracker's server does reaches the
// training.
#pragma once

#include "tracking/trackers/delivery.h"

namespace trainctl::tracking {

/// Delivers records as they come until the input is closed, then the rest and the run's end. Tries again when a tracker
/// can't be reached, and logs that once. Returns whether everything was delivered. Gives up a minute after the input
/// was closed.
bool follow_run(const DeliveryOptions& options, int input);

}  // namespace trainctl::tracking
