#include <ATen/cuda/CUDAContext.h>

#include "runtime/cuda/plugin.h"

extern "C" __attribute__((visibility("default"))) trainctl::runtime::DeviceNameFunction trainctl_cuda_device_name;

const char* trainctl_cuda_device_name(int index) {
  return at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index))->name;
}
