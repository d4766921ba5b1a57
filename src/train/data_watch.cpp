#include "train/data_watch.h"

#include <utility>

#include "runtime/device.h"

namespace trainctl {

std::optional<std::string> DataWatch::take_window(double total_ms) {
  const WaitWindow window{.total_ms = total_ms,
                          .copy_ms = std::exchange(copy_ms_, 0),
                          .loader = loader_.take_stats(),
                          .cores = available_cores()};
  all_.total_ms += window.total_ms;
  all_.copy_ms += window.copy_ms;
  all_.cores = window.cores;
  all_.loader.wait_ms += window.loader.wait_ms;
  all_.loader.read_ms += window.loader.read_ms;
  all_.loader.decode_ms += window.loader.decode_ms;
  all_.loader.transform_ms += window.loader.transform_ms;
  all_.loader.workers = window.loader.workers;
  const WaitCause cause = wait_cause(window);
  if (cause == WaitCause::none || cause == told_) return std::nullopt;
  told_ = cause;
  return describe_wait(cause, window);
}

std::string DataWatch::cause() const {
  return name_of(wait_cause(all_));
}

}  // namespace trainctl
