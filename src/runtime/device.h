// The device a run computes on, and what the host offers it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config.h"
#include "runtime/memory.h"

namespace trainctl::runtime {

/// A process among those that share this machine.
struct LocalRank {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
};

/// Chooses the device (of several GPUs that of the local rank), sets threads (an equal share of the cores) and
/// determinism for this process. `cuda` without a usable GPU is an Error with its cause and a hint. Call after
/// install_host_allocator and before the first tensor.
c10::Device open_device(const DeviceConfig& config, LocalRank local = {});

/// Returns the GPU of this process, of those that it sees. Throws Error if there are too few.
c10::Device gpu_of(LocalRank local, std::int64_t num_gpus);

/// Computes one number on the device, since only that shows a GPU without kernels or without free memory. If the device
/// fails, throws Error with the option that takes the CPU.
void try_device(c10::Device device);

/// Loads libtorch_cuda and our CUDA library into the process; false where either, or a driver, is missing. Call before
/// the first backward pass and at::manual_seed, at which LibTorch looks for its CUDA library, once.
bool load_cuda();
/// A function of our CUDA library, by its name; null where the library is missing.
void* cuda_symbol(const char* name);

/// GPUs that this process may use; 0 where there is no driver.
std::int64_t num_gpus();

/// The reason why this process can use no GPU.
struct GpuProblem {
  std::string text;
  bool is_fault = false;  // a driver is installed and the user hides no GPU: the user may expect a GPU
};

/// Returns why this process can use no GPU; none if num_gpus() > 0.
std::optional<GpuProblem> gpu_problem();

/// Returns a warning if `auto` takes the CPU because of a fault, or threads outnumber the cores; else "".
std::string device_warning(const DeviceConfig& config);

/// Cores this process may use (affinity and cgroup quota respected).
std::int64_t available_cores();

/// Returns the tensors of each device, in the order of its first one.
std::vector<std::vector<at::Tensor>> by_device(const std::vector<at::Tensor>& tensors);

/// Tensor memory of the device; for the CPU that of the host allocator.
MemoryUse device_memory(c10::Device device);
void reset_device_peak(c10::Device device);
FreeSpace device_free_space(c10::Device device);

/// Bytes that the device has; for a CPU machine::usable_memory().
std::size_t device_memory_limit(c10::Device device);

/// Waits until all work given to the device is done. Returns at once on a CPU.
void synchronize(c10::Device device);

/// The compute capability of a GPU: 90 for 9.0.
int compute_capability(c10::Device device);

/// "AMD EPYC, 2 cores" or "NVIDIA H200, 139 GiB".
std::string describe(c10::Device device);

}  // namespace trainctl::runtime
