#include "runtime/device_graph.h"

#include "core/error.h"
#include "runtime/cuda/plugin.h"
#include "runtime/device.h"

namespace trainctl::runtime {

std::unique_ptr<DeviceGraph> new_device_graph(c10::Device device) {
  const auto create = reinterpret_cast<DeviceGraphFunction*>(cuda_symbol(kDeviceGraphSymbol));
  core::ensure(create != nullptr, "the CUDA library records no graphs");
  return std::unique_ptr<DeviceGraph>(create(device.index()));
}

}  // namespace trainctl::runtime
