// The clock that a component reads, passed to it so that a test can pass one of its own.
#pragma once

#include <chrono>
#include <functional>

namespace trainctl::core {

using TimePoint = std::chrono::steady_clock::time_point;
/// Returns the current time. Is called by every thread of the component that has it.
using Clock = std::function<TimePoint()>;

/// Returns the time of this machine, which never runs backwards.
inline TimePoint steady_now() {
  return std::chrono::steady_clock::now();
}

}  // namespace trainctl::core
