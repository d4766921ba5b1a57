// Notices that a run makes no step any more, and leaves what every thread was doing in the run directory.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "runtime/span_log.h"
#include "train/config.h"

namespace trainctl::train {

struct WatchdogOptions {
  std::filesystem::path run_directory;
  std::int64_t rank = 0;
  /// Tells the other ranks what this one does since it made `step`; empty: there are no others.
  std::function<void(const std::string& doing, std::int64_t step)> tell_ranks = {};
  /// Returns which ranks differ from the rest while this one makes no step after `step`, or "" where they can't tell;
  /// empty: there are no others.
  std::function<std::string(std::int64_t step)> compare = {};
  /// Called with a line for the user, on the watch's thread.
  std::function<void(const std::string& line)> tell = {};
  core::Clock now = &core::steady_now;
};

/// A thread that waits for the next step: for `step_multiple` times the median one, but `min_timeout_s` at least. The
/// first three steps get at least ten times `min_timeout_s`. A pause doesn't count. It reports again each time that
/// twice as long has passed, into the same file. It doesn't if the other ranks no longer answer: they may have ended
/// because of this one. The thread that makes the steps uses it.
class Watchdog {
 public:
  Watchdog(const WatchdogConfig& config, WatchdogOptions options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void step_done(std::int64_t step);

  class Pause {
   public:
    explicit Pause(std::optional<Watchdog>& watch);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Watchdog* watch_;  // or null
  };

 private:
  void watch();
  double limit_s() const;
  void report(double waited_s, std::int64_t step, double median_s, bool is_first);

  WatchdogConfig config_;
  WatchdogOptions options_;
  runtime::SpanLog spans_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  int num_pauses_ = 0;
  std::int64_t step_ = 0;
  core::TimePoint last_ = options_.now();
  std::vector<double> seconds_;  // of the last steps
  std::size_t num_steps_ = 0;
  double reported_after_s_ = 0;  // without a step, when it was last reported; 0: it wasn't
  std::string told_;             // of the last report; the watch's own
  std::thread thread_;           // last: it uses all of the above
};

}  // namespace trainctl::train
