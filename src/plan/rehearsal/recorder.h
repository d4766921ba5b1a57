// The events of one rank's step, with the time that it computes between them.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "replay/trace.h"

namespace trainctl::plan {

/// Calls are made in turn, by whichever thread computes. Outside of a step nothing is recorded.
class Recorder {
 public:
  /// A communication, and the step in which it was started.
  struct Number {
    std::int64_t step = 0;
    std::size_t communication = 0;
  };

  explicit Recorder(std::int64_t rank) : rank_(rank) {}

  void begin_step(c10::Device device);
  Number start(replay::Communication what);
  /// Records that the rank waits; passes over what another step has started.
  void wait(const Number& number);
  replay::RankTrace end_step();
  /// Runs what a rank of a real run does not compute. Its time is not recorded.
  void aside(const std::function<void()>& run);

 private:
  using Clock = std::chrono::steady_clock;

  /// Seconds of computing since the last call, once the device has done all that it was given.
  double computed();

  c10::Device device_{c10::kCPU};
  std::int64_t rank_;
  std::int64_t step_ = 0;
  bool is_recording_ = false;
  Clock::time_point since_{};
  double computed_s_ = 0;  // since the last event, but for the time since `since_`
  replay::RankTrace trace_;
};

}  // namespace trainctl::plan
