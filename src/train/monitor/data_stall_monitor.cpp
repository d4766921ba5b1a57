#include "train/monitor/data_stall_monitor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/device.h"

namespace trainctl::train {
namespace {

std::string describe_growth(const dataset::LoaderStats& loader, std::int64_t cores) {
  const double work_ms = loader.read_ms + loader.decode_ms + loader.transform_ms;
  return "dataset.num_workers: auto came to " + std::to_string(loader.workers) + " threads (at most " +
         std::to_string(loader.most_workers) + " of " + std::to_string(cores) + " cores): a batch costs one " +
         std::to_string(std::lround(work_ms / static_cast<double>(std::max<std::int64_t>(1, loader.batches)))) + " ms";
}

}  // namespace

std::optional<std::string> DataStallMonitor::take_window(double total_ms) {
  const dataset::WaitWindow window{.total_ms = total_ms,
                                   .copy_ms = std::exchange(copy_ms_, 0),
                                   .loader = loader_.take_stats(),
                                   .cores = runtime::available_cores()};
  all_.total_ms += window.total_ms;
  all_.copy_ms += window.copy_ms;
  all_.cores = window.cores;
  all_.loader.wait_ms += window.loader.wait_ms;
  all_.loader.read_ms += window.loader.read_ms;
  all_.loader.decode_ms += window.loader.decode_ms;
  all_.loader.transform_ms += window.loader.transform_ms;
  all_.loader.workers = window.loader.workers;
  const std::int64_t before = std::exchange(workers_before_, window.loader.workers);
  const bool has_settled = window.loader.workers == before || window.loader.workers == window.loader.most_workers;
  if (window.loader.most_workers > 0 && window.loader.workers > workers_told_ && has_settled) {
    workers_told_ = window.loader.workers;
    growth_ = describe_growth(window.loader, window.cores);
  }
  if (window.loader.most_workers > 0 && !has_settled) return std::nullopt;  // `auto` may still add workers
  const dataset::WaitCause cause = dataset::wait_cause(window);
  if (cause == dataset::WaitCause::none || cause == told_) return std::nullopt;
  told_ = cause;
  return dataset::describe_wait(cause, window);
}

std::optional<std::string> DataStallMonitor::take_growth() {
  if (growth_.empty()) return std::nullopt;
  return std::exchange(growth_, {});
}

std::string DataStallMonitor::cause() const {
  return dataset::name_of(dataset::wait_cause(all_));
}

}  // namespace trainctl::train
