#include "runtime/memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "core/text.h"
#include "machine/limits.h"
#include "runtime/host_heap.h"

namespace trainctl::runtime {
namespace {

class HostAllocator final : public c10::Allocator {
 public:
  void use(HostMemory kind);
  void limit(std::optional<std::int64_t> bytes) {
    limit_ = bytes.value_or(static_cast<std::int64_t>(machine::memory_for_tensors()));
  }
  MemoryUse memory() const;
  void reset_peak(std::int64_t least = 0);
  void release_cache();
  FreeSpace free_space() const;
  std::int64_t current() const { return current_.load(std::memory_order_relaxed); }

  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }

  void release(void* data);

 private:
  std::int64_t count(std::int64_t bytes);
  [[noreturn]] void fail(std::size_t bytes) const;

  std::mutex installing_;                  // replicas install the allocator on their own threads
  std::atomic<HostHeap*> heap_ = nullptr;  // never destroyed, since blocks may be alive
  std::atomic<bool> caching_ = false;
  std::atomic<std::int64_t> limit_ = static_cast<std::int64_t>(machine::memory_for_tensors());
  std::atomic<std::int64_t> current_ = 0;
  std::atomic<std::int64_t> peak_ = 0;
};

/// Returns the allocator, which is never destroyed. LibTorch's registry keeps a raw pointer and frees through a plain
/// function, and tensors in static storage outlive main.
HostAllocator& host_allocator() {
  static HostAllocator* const allocator = new HostAllocator;
  return *allocator;
}

void release_block(void* data) {
  host_allocator().release(data);
}

void HostAllocator::use(HostMemory kind) {
#ifdef __SANITIZE_ADDRESS__  // AddressSanitizer tracks only the system's blocks
  kind = HostMemory::system;
#endif
  const std::lock_guard lock(installing_);
  if (kind == HostMemory::cached && heap_ == nullptr) heap_ = new HostHeap(2 * machine::usable_memory());
  caching_ = kind == HostMemory::cached;
  if (c10::GetCPUAllocator() != this) c10::SetCPUAllocator(this, /*priority=*/1);
}

c10::DataPtr HostAllocator::allocate(std::size_t bytes) {
  const c10::Device device(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &release_block, device};
  if (static_cast<std::int64_t>(bytes) < 0 || static_cast<std::int64_t>(bytes) > limit_ - current()) fail(bytes);
  void* data = nullptr;
  std::size_t held = bytes;
  if (caching_.load(std::memory_order_acquire)) data = heap_.load(std::memory_order_relaxed)->allocate(bytes);
  if (!data) {
    data = c10::alloc_cpu(bytes);
    held = ::malloc_usable_size(data);
  }
  const std::int64_t now = count(static_cast<std::int64_t>(held));
  if (c10::memoryProfilingEnabled())
    c10::reportMemoryUsageToProfiler(data, static_cast<std::int64_t>(held), static_cast<std::size_t>(now),
                                     static_cast<std::size_t>(memory().reserved), device);
  return {data, data, &release_block, device};
}

c10::DeleterFnPtr HostAllocator::raw_deleter() const {
  return &release_block;
}

void HostAllocator::release(void* data) {
  if (!data) return;
  HostHeap* const heap = heap_.load(std::memory_order_acquire);
  const bool ours = heap != nullptr && heap->owns(data);
  const auto held = static_cast<std::int64_t>(ours ? HostHeap::requested(data) : ::malloc_usable_size(data));
  const std::int64_t now = count(-held);
  if (c10::memoryProfilingEnabled())
    c10::reportMemoryUsageToProfiler(data, -held, static_cast<std::size_t>(now),
                                     static_cast<std::size_t>(memory().reserved), c10::Device(c10::DeviceType::CPU));
  if (ours)
    heap->release(data);
  else
    c10::free_cpu(data);
}

std::int64_t HostAllocator::count(std::int64_t bytes) {
  const std::int64_t now = current_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (bytes > 0) {
    std::int64_t most = peak_.load(std::memory_order_relaxed);
    while (now > most && !peak_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
    }
  }
  return now;
}

void HostAllocator::fail(std::size_t bytes) const {
  const c10::Device device(c10::DeviceType::CPU);
  c10::reportOutOfMemoryToProfiler(static_cast<std::int64_t>(bytes), static_cast<std::size_t>(current()),
                                   static_cast<std::size_t>(memory().reserved), device);
  TORCH_CHECK_WITH(OutOfMemoryError, false, "cannot allocate ", core::format_bytes(static_cast<double>(bytes)),
                   " of host memory: ", core::format_bytes(static_cast<double>(current())), " of ",
                   core::format_bytes(static_cast<double>(limit_.load())), " are in use");
}

MemoryUse HostAllocator::memory() const {
  const std::int64_t now = std::max<std::int64_t>(current(), 0);
  const HostHeap* const heap = heap_.load(std::memory_order_acquire);
  const auto pages = static_cast<std::int64_t>(heap != nullptr ? heap->reserved() : 0);
  return {.current = now, .peak = peak_.load(std::memory_order_relaxed), .reserved = std::max(pages, now)};
}

void HostAllocator::reset_peak(std::int64_t least) {
  peak_ = std::max(current(), least);
}

FreeSpace HostAllocator::free_space() const {
  HostHeap* const heap = heap_.load(std::memory_order_acquire);
  FreeSpace space = heap != nullptr ? heap->free_space() : FreeSpace{};
  space.allocated = std::max<std::int64_t>(current(), 0);
  space.reserved = memory().reserved;
  return space;
}

void HostAllocator::release_cache() {
  if (HostHeap* const heap = heap_.load(std::memory_order_acquire)) heap->release_cache();
  ::malloc_trim(0);
}

}  // namespace

void install_host_allocator(HostMemory kind) {
  host_allocator().use(kind);
}

void install_host_allocator(const DeviceConfig& config) {
  install_host_allocator(config.caching_allocator ? HostMemory::cached : HostMemory::system);
}

void limit_host_memory(std::optional<std::int64_t> bytes) {
  host_allocator().limit(bytes);
}

MemoryUse host_memory() {
  return host_allocator().memory();
}
void reset_host_peak() {
  host_allocator().reset_peak();
}
HostPeakPause::HostPeakPause() : before_(host_memory().peak) {
  reset_host_peak();
}
HostPeakPause::~HostPeakPause() {
  host_allocator().reset_peak(before_);
}
FreeSpace host_free_space() {
  return host_allocator().free_space();
}
void release_host_cache() {
  host_allocator().release_cache();
}

}  // namespace trainctl::runtime
