// The tensor memory of a run: its peak, and what each rank has in use.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "comm/group.h"
#include "runtime/memory.h"
#include "tracking/event.h"

namespace trainctl::train {

class MemoryMonitor {
 public:
  explicit MemoryMonitor(c10::Device device) : device_(device) {}
  double peak_mib() const;
  void step_done() { last_ = now(); }
  /// Leaves what has been allocated since `before` out of the peak.
  void reset_peak(const runtime::MemoryUse& before);
  /// Returns what is in use now, with the peak so far.
  runtime::MemoryUse now() const;
  /// Returns the memory of every rank as of its last step. All ranks call it.
  std::vector<tracking::RankMemory> gather(comm::Group& group) const;

 private:
  c10::Device device_;
  runtime::MemoryUse last_;        // as of the last step
  std::int64_t earlier_peak_ = 0;  // before the peak was last reset
};

}  // namespace trainctl::train
