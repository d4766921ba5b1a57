#include <ATen/cuda/CUDAContext.h>

#include "runtime/cuda/plugin.h"

extern "C" __attribute__((visibility("default"))) trainctl::runtime::DeviceNameFunction trainctl_cuda_device_name;
extern "C" __attribute__((visibility("default"))) trainctl::runtime::CapabilityFunction trainctl_cuda_capability;

const char* trainctl_cuda_device_name(int index) {
  return at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index))->name;
}

int trainctl_cuda_capability(int index) {
  const cudaDeviceProp* const properties = at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index));
  return 10 * properties->major + properties->minor;
}
