// How many threads `num_workers: auto` takes: one at first, more while the consumer waits for work that threads
// can share.
#pragma once

#include <cstdint>

#include "dataset/stage_times.h"

namespace trainctl::dataset {

/// A stretch of batches, as the consumer met them.
struct GrowthWindow {
  double total_ms = 0;  // from its first next() to its last
  double wait_ms = 0;   // of it, in next()
  std::int64_t batches = 0;
  StageTimes times;  // of all threads
};

/// The threads that would have kept up: what a batch costs them over what the consumer takes for one itself. As many as
/// now where the consumer hardly waited, or where most of their time went into reading, which more threads don't
/// shorten. Never fewer than now, never more than `most`.
std::int64_t workers_after(const GrowthWindow& window, std::int64_t workers, std::int64_t most);

/// Cuts next() calls into windows. The first batches, which nothing was prepared for, aren't counted.
class WorkerAutoscaler {
 public:
  /// A `most` not above `begin`: the number stays.
  WorkerAutoscaler(std::int64_t begin, std::int64_t most) : workers_(begin), most_(most) {}

  std::int64_t workers() const { return workers_; }
  bool may_grow() const { return workers_ < most_; }
  /// After each next(): when it returned, how long it waited, and the stages' times since the loader began.
  void batch_given(double now_ms, double wait_ms, const StageTimes& times);
  /// No more than there are: the machine gives no further thread.
  void stop_at(std::int64_t workers) { workers_ = most_ = workers; }

 private:
  std::int64_t workers_;
  std::int64_t most_;
  bool is_open_ = false;
  double begin_ms_ = 0;
  StageTimes begin_times_;
  GrowthWindow window_;
};

}  // namespace trainctl::dataset
