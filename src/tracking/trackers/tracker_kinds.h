// The trackers by name. `make_run_tracker` chooses among them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tracking/config.h"
#include "tracking/trackers/metrics_reader.h"
#include "tracking/trackers/run_tracker.h"

namespace trainctl::tracking {

/// Where the user wants a run.
struct TrackerTarget {
  std::string kind;       // "tensorboard", "csv", "wandb", "mlflow", "trackio"
  std::string server{};   // the address of MLflow's server; "" for MLFLOW_TRACKING_URI
  std::string project{};  // W&B's and Trackio's project, MLflow's experiment; "" for the experiment's name
  std::string entity{};   // W&B's user or team; "" for the user's default
};

/// Returns what the config says of the tracker.
TrackerTarget target_of(const std::string& kind, const TrackingConfig& config);

struct TrackerKind {
  const char* name;
  /// Whether the tracker can take records back, or keeps them beside those that come again.
  TakenBack taken_back;
  std::unique_ptr<RunTracker> (*make)(const TrackerTarget& target, const RunInfo& run);
};

const std::vector<TrackerKind>& tracker_kinds();
std::vector<std::string> tracker_names();
/// Returns the kind of this name. There is one: callers have checked the name.
const TrackerKind& tracker_kind(const std::string& name);

/// RUN/tensorboard/events.out.tfevents.*
std::unique_ptr<RunTracker> make_tensorboard(const TrackerTarget& target, const RunInfo& run);
/// RUN/metrics.csv
std::unique_ptr<RunTracker> make_csv(const TrackerTarget& target, const RunInfo& run);
/// RUN/wandb/offline-run-*/run-*.wandb
std::unique_ptr<RunTracker> make_wandb(const TrackerTarget& target, const RunInfo& run);
/// A run on MLflow's server.
std::unique_ptr<RunTracker> make_mlflow(const TrackerTarget& target, const RunInfo& run);
/// Rows in Trackio's database of the project.
std::unique_ptr<RunTracker> make_trackio(const TrackerTarget& target, const RunInfo& run);

/// Returns the address of MLflow's server: the one named, or MLFLOW_TRACKING_URI. Throws an Error if there is none, or
/// if the address holds a password.
std::string mlflow_address(const std::string& server);

}  // namespace trainctl::tracking
