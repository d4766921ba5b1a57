// A clock that stands still until the test moves it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/clock.h"

namespace trainctl::testing {

class ManualClock {
 public:
  /// Reads this clock, which must outlive the function.
  core::Clock now() {
    return [this] {
      ++num_reads_;
      return core::TimePoint(std::chrono::nanoseconds(ns_.load()));
    };
  }
  void advance(std::chrono::nanoseconds duration) { ns_ += duration.count(); }
  /// Returns how often the clock was read.
  std::int64_t num_reads() const { return num_reads_; }

 private:
  std::atomic<std::int64_t> ns_ = 0;
  std::atomic<std::int64_t> num_reads_ = 0;
};

}  // namespace trainctl::testing
