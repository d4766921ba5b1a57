#include "profiler/record/recording.h"

#include <c10/util/Exception.h>
#include <torch/csrc/profiler/kineto_shim.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <cstdlib>
#include <set>

namespace trainctl::profiler {

namespace impl = torch::profiler::impl;
namespace kineto = torch::autograd::profiler;

Recording::Recording(const ProfilerConfig& config, c10::Device device, RankOfTrace rank) {
  const impl::ProfilerConfig options(impl::ProfilerState::KINETO, config.record_shapes, config.profile_memory);
  std::set<impl::ActivityType> activities{impl::ActivityType::CPU};
  if (device.is_cuda()) activities.insert(impl::ActivityType::CUDA);
  // Kineto looks for GPUs even when it isn't asked about them, and calls it an error that there is no driver.
  if (device.is_cpu()) ::setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);
  kineto::prepareProfiler(options, activities);
  kineto::enableProfiler(options, activities);
  // By this, tools that read several ranks' traces tell them apart.
  kineto::addMetadataJson("distributedInfo", "{\"backend\": \"" + rank.backend +
                                                 "\", \"rank\": " + std::to_string(rank.rank) +
                                                 ", \"world_size\": " + std::to_string(rank.world_size) + "}");
}

Recording::~Recording() {
  if (!running_) return;
  try {
    kineto::disableProfiler();
  } catch (const std::exception& error) {
    TORCH_WARN("the profiler could not be stopped: ", error.what());
  }
}

std::unique_ptr<kineto::ProfilerResult> Recording::stop() {
  running_ = false;
  return kineto::disableProfiler();
}

}  // namespace trainctl::profiler
