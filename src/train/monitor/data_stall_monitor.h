// Watches how long steps wait for data, and says why.
#pragma once

#include <optional>
#include <string>

#include "dataset/dataset.h"
#include "dataset/loader/wait_cause.h"

namespace trainctl::train {

class DataStallMonitor {
 public:
  explicit DataStallMonitor(dataset::Loader& loader) : loader_(loader) {}

  void step_done(double copy_ms) { copy_ms_ += copy_ms; }
  /// Ends a window of `total_ms` of training. A line for people, where the window waited too long and the cause isn't
  /// the one that was told last.
  std::optional<std::string> take_window(double total_ms);
  /// A line for people, once: how many threads `num_workers: auto` came to, when a window passed without a further one.
  std::optional<std::string> take_growth();
  /// Threads of the loader, as of the last window.
  std::int64_t workers() const { return all_.loader.workers; }
  /// Returns the cause over all windows: "none", "disk", "decode", "transform", "too few workers", "copy".
  std::string cause() const;

 private:
  dataset::Loader& loader_;
  double copy_ms_ = 0;
  dataset::WaitWindow all_;
  dataset::WaitCause told_ = dataset::WaitCause::none;
  std::int64_t workers_before_ = 1;  // the last window: what `auto` begins with
  std::int64_t workers_told_ = 1;
  std::string growth_;
};

}  // namespace trainctl::train
