// Why training waited for data, and which key of the config to change.
#pragma once

#include <cstdint>
#include <string>

#include "dataset/dataset.h"

namespace trainctl::dataset {

enum class WaitCause { none, disk, decode, transform, too_few_workers, copy };
/// "too few workers"
std::string name_of(WaitCause cause);

/// A stretch of training.
struct WaitWindow {
  double total_ms = 0;
  double copy_ms = 0;  // of it, moving batches to the device
  LoaderStats loader;  // of it, waiting for batches, and what the loader did
  std::int64_t cores = 1;
};

/// Waits up to this share of a window are nobody's concern.
inline constexpr double kTolerableWaitShare = 0.05;

/// Returns the cause of the waits in `window`, or none if they are within kTolerableWaitShare. The cause is copy if
/// copying took longer than waiting for batches. Else it is the stage of preparation that took most time over all
/// threads, or none if no work was finished. too_few_workers replaces decode and transform if at most half of the cores
/// have a worker.
WaitCause wait_cause(const WaitWindow& window);

/// One line: how much, why, and what to change. Empty where there is no cause.
std::string describe_wait(WaitCause cause, const WaitWindow& window);

}  // namespace trainctl::dataset
