// What a stretch of code gives a GPU to do, recorded once and given again at the cost of one launch.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace trainctl::runtime {

class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Calls `work` and records what it gives the device, which then does it once. The recording holds addresses of
  /// tensors and values of the host's numbers. `work` may not wait for the device: that throws c10::Error.
  virtual void record(const std::function<void()>& work) = 0;
  /// Gives the device what was recorded, on the current stream.
  virtual void replay() = 0;
};

/// A CUDA graph (https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs). Throws Error where our CUDA library
/// is missing.
std::unique_ptr<DeviceGraph> new_device_graph(c10::Device device);

}  // namespace trainctl::runtime
