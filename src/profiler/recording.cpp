#include "profiler/recording.h"

#include <c10/util/Exception.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <cstdlib>
#include <set>

namespace trainctl {

namespace impl = torch::profiler::impl;
namespace kineto = torch::autograd::profiler;

Recording::Recording(const ProfilerConfig& config, c10::Device device) {
  const impl::ProfilerConfig options(impl::ProfilerState::KINETO, config.shapes, config.memory);
  std::set<impl::ActivityType> activities{impl::ActivityType::CPU};
  if (device.is_cuda()) activities.insert(impl::ActivityType::CUDA);
  // Kineto looks for GPUs even when it isn't asked about them, and calls it an error that there is no driver.
  if (device.is_cpu()) ::setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);
  kineto::prepareProfiler(options, activities);
  kineto::enableProfiler(options, activities);
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

}  // namespace trainctl
