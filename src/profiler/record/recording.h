// LibTorch's profiler (Kineto) over a stretch of the calling thread's work, and of the threads that autograd runs for
// it.
#pragma once

#include <c10/core/Device.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <cstdint>
#include <memory>
#include <string>

#include "profiler/config.h"

namespace trainctl::profiler {

struct RankOfTrace {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::string backend = "gloo";
};

/// Records from construction until stop(); thrown away if that never comes. One at a time, stopped where it was made.
class Recording {
 public:
  Recording(const ProfilerConfig& config, c10::Device device, RankOfTrace rank);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  std::unique_ptr<torch::autograd::profiler::ProfilerResult> stop();

 private:
  bool running_ = true;
};

}  // namespace trainctl::profiler
