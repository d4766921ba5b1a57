#include "train/monitor/memory_monitor.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "core/units.h"
#include "runtime/device.h"

namespace trainctl::train {

runtime::MemoryUse MemoryMonitor::now() const {
  runtime::MemoryUse use = runtime::device_memory(device_);
  use.peak = std::max(use.peak, earlier_peak_);
  return use;
}

double MemoryMonitor::peak_mib() const {
  return static_cast<double>(now().peak) / core::kMiB;
}

void MemoryMonitor::reset_peak(const runtime::MemoryUse& before) {
  earlier_peak_ = before.peak;
  runtime::reset_device_peak(device_);
}

std::vector<tracking::RankMemory> MemoryMonitor::gather(comm::Group& group) const {
  const at::Tensor mine = at::empty({2}, at::kDouble);
  const at::Tensor all = at::empty({2 * group.size()}, at::kDouble);
  mine[0].fill_(static_cast<double>(last_.peak) / core::kMiB);
  mine[1].fill_(static_cast<double>(last_.current) / core::kMiB);
  group.all_gather(all, mine)->wait();
  std::vector<tracking::RankMemory> ranks;
  for (std::int64_t rank = 0; rank < group.size(); ++rank)
    ranks.push_back({.peak_mib = all[2 * rank].item<double>(), .allocated_mib = all[2 * rank + 1].item<double>()});
  return ranks;
}

}  // namespace trainctl::train
