// Watches how long steps wait for data, and says why.
#pragma once

#include <optional>
#include <string>

#include "dataset/dataset.h"
#include "dataset/wait_cause.h"

namespace trainctl {

class DataWatch {
 public:
  explicit DataWatch(Loader& loader) : loader_(loader) {}

  void step_done(double copy_ms) { copy_ms_ += copy_ms; }
  /// Ends a window of `total_ms` of training. A line for people, where the window waited too long and the cause isn't
  /// the one that was told last.
  std::optional<std::string> take_window(double total_ms);
  /// Of all windows together: "none", "disk", "decode", "transform", "too few workers", "copy".
  std::string cause() const;

 private:
  Loader& loader_;
  double copy_ms_ = 0;
  WaitWindow all_;
  WaitCause told_ = WaitCause::none;
};

}  // namespace trainctl
