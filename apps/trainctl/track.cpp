#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "command.h"
#include "config/flatten.h"
#include "config/parse.h"
#include "config/read.h"
#include "core/error.h"
#include "core/log.h"
#include "core/terminal.h"
#include "core/text.h"
#include "tracking/config.h"
#include "tracking/trackers/delivery.h"
#include "tracking/trackers/follow.h"
#include "wrong_use.h"

namespace trainctl::cli {
namespace {

namespace fs = std::filesystem;

struct TrackOptions {
  std::vector<std::string> runs;
  std::vector<std::string> trackers;
  std::string server;
  std::string project;
  std::string entity;
  bool from_start = false;
  bool follow = false;
};

/// What a run's config.yaml tells a tracker.
struct TrackedConfig {
  std::string name;
  std::map<std::string, std::string> flat;
  tracking::TrackingConfig tracking;
};

/// Returns the run's config. A run without config.yaml has the directory's name and no values.
TrackedConfig read_config(const fs::path& run) {
  const fs::path path = run / "config.yaml";
  TrackedConfig config{.name = fs::absolute(run).lexically_normal().filename().string(), .flat = {}, .tracking = {}};
  if (!fs::exists(path)) return config;
  config::Problems problems;
  const std::optional<config::Node> root = config::parse_file(path, problems);
  if (root) {
    config.flat = config::flatten(*root);
    if (const config::Node* name = root->find("name")) config.name = name->text;
    if (const config::Node* section = root->find("tracking"))
      config.tracking = config::read<tracking::TrackingConfig>(*section, problems, "tracking");
  }
  problems.throw_if_any();
  return config;
}

tracking::DeliveryOptions delivery_options(const TrackOptions& options, const fs::path& run,
                                           const std::string& tracker) {
  const TrackedConfig config = read_config(run);
  tracking::TrackerTarget target = tracking::target_of(tracker, config.tracking);
  if (!options.server.empty()) target.server = options.server;
  if (!options.project.empty()) target.project = options.project;
  if (!options.entity.empty()) target.entity = options.entity;
  return {.run_directory = run,
          .run_name = config.name,
          .config = config.flat,
          .target = target,
          .start = options.from_start ? tracking::Start::over : tracking::Start::goes_on};
}

void deliver_run(const tracking::DeliveryOptions& options) {
  tracking::Delivery delivery(options);
  std::int64_t count = 0;
  while (const std::int64_t delivered = delivery.deliver()) count += delivered;
  const bool has_ended = delivery.finish();
  core::print(stdout, "%s: %s: %s %s%s, %s\n", options.run_directory.c_str(), options.target.kind.c_str(),
              core::format_count(count).c_str(), count == 1 ? "record" : "records",
              has_ended ? "" : " of a run that has not ended", delivery.place().c_str());
}

int track(const TrackOptions& options) {
  for (const std::string& run : options.runs)
    if (!fs::exists(fs::path(run) / "metrics.jsonl") && !fs::exists(fs::path(run) / "config.yaml"))
      throw wrong_use(run, "is no run directory: neither metrics.jsonl nor config.yaml is in it");
  if (options.follow && (options.runs.size() != 1 || options.trackers.size() != 1))
    throw wrong_use("--follow", "takes one run and one tracker");
  if (options.follow) {
    [[maybe_unused]] const int ignored = ::nice(10);
    const auto delivery = delivery_options(options, options.runs.front(), options.trackers.front());
    return tracking::follow_run(delivery, STDIN_FILENO) ? core::kExitDone : core::kExitFailed;
  }
  for (const std::string& run : options.runs) {
    if (!fs::exists(fs::path(run) / "metrics.jsonl")) {
      core::log().info("left out: " + run + ", whose run has no record");
      continue;
    }
    for (const std::string& tracker : options.trackers) deliver_run(delivery_options(options, run, tracker));
  }
  return core::kExitDone;
}

}  // namespace

Action declare_track(CLI::App& app) {
  const auto options = std::make_shared<TrackOptions>();
  app.add_option("RUN", options->runs, "Run directories")->required();
  app.add_option("--to", options->trackers, "Trackers: " + core::list_words(tracking::tracker_names()))
      ->type_name("A,B,…")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(tracking::tracker_names()))
      ->required();
  app.add_option("--server", options->server, "Address of MLflow's server (default MLFLOW_TRACKING_URI)")
      ->type_name("URL");
  app.add_option("--project", options->project,
                 "Project of Weights & Biases or Trackio, or experiment of MLflow (default the config's, or the "
                 "experiment's name)")
      ->type_name("NAME");
  app.add_option("--entity", options->entity, "User or team of Weights & Biases")->type_name("NAME");
  app.add_flag("--from-start", options->from_start, "Deliver all records again, not only those since the last time");
  app.add_flag("--follow", options->follow,
               "Deliver as the run records, until standard input is closed; `train` starts this for the trackers that "
               "the config names");
  return [options] { return track(*options); };
}

}  // namespace trainctl::cli
