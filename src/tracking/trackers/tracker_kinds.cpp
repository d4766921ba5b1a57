#include "tracking/trackers/tracker_kinds.h"

#include <algorithm>

#include "core/error.h"

namespace trainctl::tracking {

const std::vector<TrackerKind>& tracker_kinds() {
  static const std::vector<TrackerKind> kinds{
      {"tensorboard", TakenBack::skip, make_tensorboard},
      {"csv", TakenBack::skip, make_csv},
      {"wandb", TakenBack::skip, make_wandb},
      {"mlflow", TakenBack::keep, make_mlflow},  // its server deletes no value
      {"trackio", TakenBack::skip, make_trackio},
  };
  return kinds;
}

std::vector<std::string> tracker_names() {
  std::vector<std::string> names;
  for (const TrackerKind& kind : tracker_kinds()) names.emplace_back(kind.name);
  return names;
}

const TrackerKind& tracker_kind(const std::string& name) {
  const auto found = std::ranges::find(tracker_kinds(), name, [](const TrackerKind& kind) { return kind.name; });
  core::ensure(found != tracker_kinds().end(), "there is no such tracker");
  return *found;
}

TrackerTarget target_of(const std::string& kind, const TrackingConfig& config) {
  TrackerTarget target{.kind = kind};
  if (kind == "wandb" && config.wandb) target.project = config.wandb->project, target.entity = config.wandb->entity;
  if (kind == "mlflow" && config.mlflow)
    target.server = config.mlflow->server, target.project = config.mlflow->experiment;
  if (kind == "trackio" && config.trackio) target.project = config.trackio->project;
  return target;
}

}  // namespace trainctl::tracking
