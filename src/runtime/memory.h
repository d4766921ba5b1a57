// Host memory under LibTorch: a caching allocator (glibc returns every large tensor to the system and faults it in
// again), and what it knows about use. Install before the first tensor.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/config.h"
#include "runtime/free_space.h"

namespace trainctl::runtime {

struct MemoryUse {
  std::int64_t current = 0;   // bytes in live tensors
  std::int64_t peak = 0;      // the most `current` has been since reset_peak
  std::int64_t reserved = 0;  // bytes held from the system, live or kept for reuse
};

enum class HostMemory { cached, system };

/// Puts our allocator under LibTorch, once per process; with HostMemory::system it only counts. Under sanitizers
/// it never caches (they must see every free). Safe from any thread: later calls find it installed.
void install_host_allocator(HostMemory kind);
/// Installs the allocator that device.caching_allocator asks for.
void install_host_allocator(const DeviceConfig& config);

/// Tensors of this process take no more; nothing: than the machine has.
void limit_host_memory(std::optional<std::int64_t> bytes);

MemoryUse host_memory();
void reset_host_peak();
/// A scope in which the peak is that of this process's use meanwhile. At its end the peak is the former one, or the
/// current use if that is larger, so that a trial doesn't show in it.
class HostPeakPause {
 public:
  HostPeakPause();
  ~HostPeakPause();
  HostPeakPause(const HostPeakPause&) = delete;
  HostPeakPause& operator=(const HostPeakPause&) = delete;

 private:
  std::int64_t before_;
};
/// How what is held and not used lies; with HostMemory::system nobody knows, and it is nothing.
FreeSpace host_free_space();
/// Returns cached blocks to the system.
void release_host_cache();

}  // namespace trainctl::runtime
