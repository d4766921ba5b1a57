// How fast a run goes: the figures of log records and of summary.json.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/clock.h"

namespace trainctl::train {

/// What a step has worked on.
struct Work {
  std::int64_t samples = 0;
  std::int64_t tokens = 0;  // of sequences, padding included; 0: images
};

/// Counts steps, work and waits. A step's time is what passes between two calls of step_done, less what was
/// declared as a pause (evaluation, waiting for a save).
class Throughput {
 public:
  explicit Throughput(core::Clock now = &core::steady_now) : now_(std::move(now)) {}

  void start();
  void step_done(const Work& work, double data_wait_ms);
  /// The time since the last step_done or pause_done belongs to no step.
  void pause_done();

  struct Window {
    double step_ms = 0;
    double samples_per_s = 0;
    double tokens_per_s = 0;
    double data_wait_ms = 0;
    double total_ms = 0;  // of the whole window; the others are means
  };
  /// Means since the last call.
  Window take_window();

  struct Summary {
    double median_step_ms = 0;
    double samples_per_s = 0;
    double tokens_per_s = 0;
    double data_wait_share = 0;
  };
  /// Over the steady steps: the first ten, or a tenth of a shorter run, are warm-up.
  Summary summary() const;

 private:
  struct StepTime {
    double ms = 0;
    double wait_ms = 0;
    Work work;
  };
  core::Clock now_;
  core::TimePoint last_;
  std::vector<StepTime> steps_;  // the newest kMaxSteps
  std::size_t next_ = 0;
  std::int64_t num_steps_ = 0;
  StepTime window_;
  std::int64_t window_steps_ = 0;
};

}  // namespace trainctl::train
