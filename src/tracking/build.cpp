#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "tracking/sinks.h"
#include "tracking/trackers/live.h"
#include "tracking/tracking.h"

namespace trainctl::tracking {
namespace {

/// Whether the descriptor is a terminal that can redraw a line, as a bar needs.
bool can_redraw(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

std::unique_ptr<Sink> console_on(int descriptor, Console console) {
  if (console == Console::quiet) return make_console(descriptor, Verbosity::quiet);
  if (console == Console::bar && can_redraw(descriptor)) return make_progress_bar(descriptor);
  return make_console(descriptor, Verbosity::normal);
}

/// Adds the trackers, after metrics.jsonl and summary.json, of which they are functions.
void add_trackers(const TrackingConfig& config, const TrackerOptions& options, Tracker& tracker) {
  const auto add_live = [&](TrackerTarget target) {
    tracker.add(make_live_delivery({.run_directory = options.run_directory,
                                    .run_name = options.run_name,
                                    .config = options.config,
                                    .target = std::move(target),
                                    .cursor_writes = CursorWrites::at_times}));
  };
  const auto add_process = [&](const char* name) {
    tracker.add(make_tracking_process(
        {.run_directory = options.run_directory, .tracker = name, .longest_wait_s = config.flush_timeout_s}));
  };
  if (config.tensorboard) add_live({.kind = "tensorboard"});
  if (config.csv) add_live({.kind = "csv"});
  if (config.wandb) add_live(target_of("wandb", config));
  if (config.mlflow) {
    mlflow_address(config.mlflow->server);  // refuses an address that can't be one
    add_process("mlflow");
  }
  if (config.trackio) add_process("trackio");
}

}  // namespace

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::unique_ptr<Tracker> build(const TrackingConfig& config, const TrackerOptions& options) {
  std::filesystem::create_directories(options.run_directory);
  auto tracker = std::make_unique<Tracker>();
  tracker->add(console_on(STDERR_FILENO, options.console));
  if (config.log_sample_ids) tracker->add(make_samples(options));
  if (options.records == Records::none) return tracker;
  tracker->add(make_jsonl(options));
  tracker->add(make_summary(options));
  tracker->add(make_notices(options));
  add_trackers(config, options, *tracker);
  return tracker;
}

}  // namespace trainctl::tracking
