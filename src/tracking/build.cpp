#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string_view>

#include "tracking/sinks.h"
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
  if (config.tensorboard) tracker->add(make_tensorboard(options));
  return tracker;
}

}  // namespace trainctl::tracking
