// Replicas of a run as threads of one process, without a launcher.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "train/run/run.h"

namespace trainctl::train {

/// How many: all GPUs, or as the config says.
std::int64_t num_replicas(const distributed::DistributedConfig& config, const runtime::DeviceConfig& device);

/// Calls `train` on a thread for each replica and returns what the first replica's returned. The failure that came
/// first is rethrown, once all have ended: the others fail because of it.
int train_replicas(std::int64_t num_replicas, std::chrono::milliseconds timeout,
                   const std::function<int(const RankContext&)>& train);

}  // namespace trainctl::train
