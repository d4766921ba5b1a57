#include "dataset/loader/worker_autoscaler.h"

#include <algorithm>
#include <cmath>

#include "dataset/loader/wait_cause.h"

namespace trainctl::dataset {
namespace {

constexpr std::int64_t kLeastBatches = 8;  // a window has at least so many,
constexpr double kLeastMs = 200;           // and takes at least so long

}  // namespace

std::int64_t workers_after(const GrowthWindow& window, std::int64_t workers, std::int64_t most) {
  if (workers >= most || window.wait_ms <= kTolerableWaitShare * window.total_ms) return workers;
  if (window.times.read >= window.times.decode + window.times.transform) return workers;
  const double work_ms = static_cast<double>(window.times.total()) / 1e6;
  const double own_ms = window.total_ms - window.wait_ms;
  // The consumer that takes no time itself is never content.
  const double wanted = own_ms * static_cast<double>(most) <= work_ms ? static_cast<double>(most) : work_ms / own_ms;
  return std::clamp(static_cast<std::int64_t>(std::ceil(wanted)), workers + 1, most);
}

void WorkerAutoscaler::batch_given(double now_ms, double wait_ms, const StageTimes& times) {
  if (!may_grow()) return;
  if (is_open_) {
    window_.wait_ms += wait_ms;
    window_.total_ms = now_ms - begin_ms_;
    if (++window_.batches < kLeastBatches || window_.total_ms < kLeastMs) return;
    window_.times = times - begin_times_;
    workers_ = workers_after(window_, workers_, most_);
  }
  is_open_ = true;
  begin_ms_ = now_ms;
  begin_times_ = times;
  window_ = {};
}

}  // namespace trainctl::dataset
