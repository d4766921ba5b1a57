#include "train/run/replicas.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/world.h"
#include "runtime/device.h"

namespace trainctl::train {

std::int64_t num_replicas(const distributed::DistributedConfig& config, const runtime::DeviceConfig& device) {
  const config::AutoOr<std::int64_t> asked = config::facts_of(config.how).num_threads;
  if (asked.value) return *asked.value;
  const std::int64_t gpus = device.kind == runtime::DeviceKind::cpu ? 0 : runtime::num_gpus();
  return gpus > 0 ? gpus : std::max<std::int64_t>(2, runtime::available_cores() / 4);
}

int train_replicas(std::int64_t num_replicas, std::chrono::milliseconds timeout,
                   const std::function<int(const RankContext&)>& train) {
  std::vector<std::unique_ptr<comm::Group>> groups = comm::thread_groups(num_replicas, timeout);
  std::vector<int> results(groups.size(), 0);
  std::mutex mutex;
  std::exception_ptr first_failure;
  // The others are told that a member is gone.
  const auto fail = [&](std::size_t member) {
    const std::lock_guard lock(mutex);
    if (!first_failure) first_failure = std::current_exception();
    groups[member].reset();
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const auto run = [&, i] {
        try {
          results[i] = train(
              {.group = groups[i].get(), .local_rank = static_cast<std::int64_t>(i), .local_world_size = num_replicas});
        } catch (...) {
          fail(i);
        }
      };
      try {
        threads.emplace_back(run);
      } catch (...) {
        fail(i);
      }
    }
  }
  if (first_failure) std::rethrow_exception(first_failure);
  return results.front();
}

}  // namespace trainctl::train
