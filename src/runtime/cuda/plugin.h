// What the CUDA library (libtrainctl_cuda.so, loaded where there is a driver) offers to the program that loads it, by
// symbol name: the program itself links no CUDA.
#pragma once

#include <cstdint>

#include "runtime/device_graph.h"
#include "runtime/free_space.h"

namespace trainctl::runtime {

/// `const char* trainctl_cuda_device_name(int index)`: "NVIDIA H200"; lives as long as the process.
inline constexpr const char* kDeviceNameSymbol = "trainctl_cuda_device_name";
using DeviceNameFunction = const char*(int index);

/// `int trainctl_cuda_capability(int index)`: 90 for 9.0.
inline constexpr const char* kCapabilitySymbol = "trainctl_cuda_capability";
using CapabilityFunction = int(int index);

/// `void trainctl_cuda_mark_spans(bool on)`: shows every Span as an NVTX range, for Nsight.
inline constexpr const char* kMarkSpansSymbol = "trainctl_cuda_mark_spans";
using MarkSpansFunction = void(bool on);

/// `void trainctl_cuda_free_space(int device, FreeSpace& space)`: of LibTorch's allocator.
inline constexpr const char* kFreeSpaceSymbol = "trainctl_cuda_free_space";
using FreeSpaceFunction = void(int device, FreeSpace& space);

/// `void trainctl_cuda_limit_memory(int device, int64_t bytes)`: LibTorch's allocator gives this process no more.
inline constexpr const char* kLimitMemorySymbol = "trainctl_cuda_limit_memory";
using LimitMemoryFunction = void(int device, std::int64_t bytes);

/// `DeviceGraph* trainctl_cuda_graph(int device)`: an empty one, for the caller to delete.
inline constexpr const char* kDeviceGraphSymbol = "trainctl_cuda_graph";
using DeviceGraphFunction = DeviceGraph*(int device);

}  // namespace trainctl::runtime
