// The spans of a run as phases of a memory log.
#pragma once

#include <ATen/record_function.h>

#include "plan/memory/memory_tracker.h"

namespace trainctl::plan {

/// While it lives, the log is told which Span this thread is in. One at a time on a thread.
class SpanPhases {
 public:
  explicit SpanPhases(MemoryTracker& log);
  ~SpanPhases();
  SpanPhases(const SpanPhases&) = delete;
  SpanPhases& operator=(const SpanPhases&) = delete;

 private:
  at::CallbackHandle callback_;
};

}  // namespace trainctl::plan
