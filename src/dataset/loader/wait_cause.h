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

/// Time that stages of preparation take counts over all threads: the largest is the cause. Where it is work (decode or
/// transform) that more threads could share, because at most half of the cores have a worker, these are too few. None
/// is named where no work was finished.
WaitCause wait_cause(const WaitWindow& window);

/// One line: how much, why, and what to change. Empty where there is no cause.
std::string describe_wait(WaitCause cause, const WaitWindow& window);

}  // namespace trainctl::dataset
