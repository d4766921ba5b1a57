// Sinks that deliver a run to trackers while it trains. A tracker whose files are in the run directory is written by
// the training process, as metrics.jsonl is. Another one is served by a process of its own, for which no step ever
// waits.
#pragma once

#include <memory>

#include "tracking/event.h"
#include "tracking/trackers/delivery.h"

namespace trainctl::tracking {

/// Delivers each record in the training process. metrics.jsonl has the record already: the sink stands after that one.
std::unique_ptr<Sink> make_live_delivery(const DeliveryOptions& options);

struct TrackingProcessOptions {
  std::filesystem::path run_directory;
  std::string tracker;
  double longest_wait_s = 10;  // at the end of a run that no signal stops, for what is not delivered
};

/// Starts `trainctl track RUN --to TRACKER --follow` with the run, and waits a limited time for it at the end. Logs how
/// many records are not delivered then.
std::unique_ptr<Sink> make_tracking_process(const TrackingProcessOptions& options);

}  // namespace trainctl::tracking
