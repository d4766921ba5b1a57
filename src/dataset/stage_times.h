// Where the time of preparing samples goes.
#pragma once

#include <chrono>
#include <cstdint>

namespace trainctl::dataset {

/// Nanoseconds of a thread's time.
struct StageTimes {
  std::int64_t read = 0;       // getting a sample's bytes into memory
  std::int64_t decode = 0;     // bytes to pixels
  std::int64_t transform = 0;  // all that comes after

  void operator+=(const StageTimes& more) {
    read += more.read;
    decode += more.decode;
    transform += more.transform;
  }
  StageTimes operator-(const StageTimes& less) const {
    return {read - less.read, decode - less.decode, transform - less.transform};
  }
  std::int64_t total() const { return read + decode + transform; }
};

/// Adds the time since the last lap, or its making, to a stage.
class StageClock {
 public:
  void lap(std::int64_t& stage) {
    const Clock::time_point now = Clock::now();
    stage += std::chrono::duration_cast<std::chrono::nanoseconds>(now - last_).count();
    last_ = now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

}  // namespace trainctl::dataset
