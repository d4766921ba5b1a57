#include "runtime/memory.h"

#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "core/text.h"
#include "runtime/host_heap.h"
#include "runtime/machine.h"

namespace trainctl {
namespace {

/// The most of each Span's open time: between two span events all open spans see the same memory, so an allocation
/// raises one number, which is handed to the open spans when the next event comes.
class SpanPeaks {
 public:
  bool recording() const { return recording_.load(std::memory_order_relaxed); }

  void note(std::int64_t current) {
    std::int64_t most = window_.load(std::memory_order_relaxed);
    while (current > most && !window_.compare_exchange_weak(most, current, std::memory_order_relaxed)) {
    }
  }

  void begin(const char* name, std::int64_t current) {
    const std::lock_guard lock(mutex_);
    close_window(current);
    Entry& entry = entries_[name];
    ++entry.open;
    entry.peak = std::max(entry.peak, current);
  }

  void end(const char* name, std::int64_t current) {
    const std::lock_guard lock(mutex_);
    close_window(current);
    if (const auto found = entries_.find(name); found != entries_.end() && found->second.open > 0) --found->second.open;
  }

  void reset(std::int64_t current) {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [](const auto& entry) { return entry.second.open == 0; });
    for (auto& [name, entry] : entries_) entry.peak = current;
    window_ = current;
  }

  std::map<std::string, std::int64_t> peaks(std::int64_t current) {
    const std::lock_guard lock(mutex_);
    close_window(current);
    std::map<std::string, std::int64_t> peaks;
    for (const auto& [name, entry] : entries_) peaks[name] = entry.peak;
    return peaks;
  }

  void record(bool on, at::CallbackHandle (*add_callback)()) {
    const std::lock_guard lock(mutex_);
    if (on == callback_.has_value()) return;
    recording_ = on;
    if (on) {
      callback_ = add_callback();
      return;
    }
    at::removeCallback(*callback_);
    callback_.reset();
    for (auto& [name, entry] : entries_) entry.open = 0;  // their ends won't be seen
  }

 private:
  struct Entry {
    std::int64_t open = 0;
    std::int64_t peak = 0;
  };

  void close_window(std::int64_t current) {
    const std::int64_t most = window_.exchange(current, std::memory_order_relaxed);
    for (auto& [name, entry] : entries_)
      if (entry.open > 0) entry.peak = std::max(entry.peak, most);
  }

  std::atomic<bool> recording_ = false;
  std::atomic<std::int64_t> window_ = 0;
  std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::optional<at::CallbackHandle> callback_;
};

class HostAllocator final : public c10::Allocator {
 public:
  void use(HostMemory kind);
  void limit(std::optional<std::int64_t> bytes) {
    limit_ = bytes.value_or(static_cast<std::int64_t>(machine_memory()));
  }
  MemoryUse memory() const;
  void reset_peak();
  void release_cache();
  FreeSpace free_space() const;
  SpanPeaks& spans() { return spans_; }
  std::int64_t current() const { return current_.load(std::memory_order_relaxed); }

  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }

  void release(void* data);

 private:
  std::int64_t count(std::int64_t bytes);
  [[noreturn]] void fail(std::size_t bytes) const;

  std::unique_ptr<HostHeap> heap_;  // once made, it stays: blocks may be alive
  std::atomic<bool> caching_ = false;
  std::atomic<std::int64_t> limit_ = static_cast<std::int64_t>(machine_memory());
  std::atomic<std::int64_t> current_ = 0;
  std::atomic<std::int64_t> peak_ = 0;
  SpanPeaks spans_;
};

/// LibTorch's registry keeps a bare pointer for the life of the process and frees through a plain function, so the
/// allocator has to be an object that this function finds; tensors in static storage outlive main, so it is never
/// destroyed.
HostAllocator& host_allocator() {
  static HostAllocator* const allocator = new HostAllocator;
  return *allocator;
}

void release_block(void* data) {
  host_allocator().release(data);
}

void HostAllocator::use(HostMemory kind) {
#ifdef TRAINCTL_SANITIZED
  kind = HostMemory::system;
#endif
  if (kind == HostMemory::cached && !heap_) heap_ = std::make_unique<HostHeap>(2 * machine_memory());
  caching_ = kind == HostMemory::cached;
}

c10::DataPtr HostAllocator::allocate(std::size_t bytes) {
  const c10::Device device(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &release_block, device};
  if (static_cast<std::int64_t>(bytes) < 0 || static_cast<std::int64_t>(bytes) > limit_ - current()) fail(bytes);
  void* data = nullptr;
  std::size_t held = bytes;
  if (caching_.load(std::memory_order_relaxed)) data = heap_->allocate(bytes);
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
  const bool ours = heap_ && heap_->owns(data);
  const auto held = static_cast<std::int64_t>(ours ? HostHeap::requested(data) : ::malloc_usable_size(data));
  const std::int64_t now = count(-held);
  if (c10::memoryProfilingEnabled())
    c10::reportMemoryUsageToProfiler(data, -held, static_cast<std::size_t>(now),
                                     static_cast<std::size_t>(memory().reserved), c10::Device(c10::DeviceType::CPU));
  if (ours)
    heap_->release(data);
  else
    c10::free_cpu(data);
}

std::int64_t HostAllocator::count(std::int64_t bytes) {
  const std::int64_t now = current_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (bytes > 0) {
    std::int64_t most = peak_.load(std::memory_order_relaxed);
    while (now > most && !peak_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
    }
    if (spans_.recording()) spans_.note(now);
  }
  return now;
}

void HostAllocator::fail(std::size_t bytes) const {
  const c10::Device device(c10::DeviceType::CPU);
  c10::reportOutOfMemoryToProfiler(static_cast<std::int64_t>(bytes), static_cast<std::size_t>(current()),
                                   static_cast<std::size_t>(memory().reserved), device);
  TORCH_CHECK_WITH(OutOfMemoryError, false, "cannot allocate ", format_bytes(static_cast<double>(bytes)),
                   " of host memory: ", format_bytes(static_cast<double>(current())), " of ",
                   format_bytes(static_cast<double>(limit_.load())),
                   " are in use; a smaller dataset.batch_size with more accumulation.steps needs less");
}

MemoryUse HostAllocator::memory() const {
  const std::int64_t now = std::max<std::int64_t>(current(), 0);
  const auto pages = static_cast<std::int64_t>(heap_ ? heap_->reserved() : 0);
  return {.current = now, .peak = peak_.load(std::memory_order_relaxed), .reserved = std::max(pages, now)};
}

void HostAllocator::reset_peak() {
  peak_ = current();
  spans_.reset(current());
}

FreeSpace HostAllocator::free_space() const {
  FreeSpace space = heap_ ? heap_->free_space() : FreeSpace{};
  space.allocated = std::max<std::int64_t>(current(), 0);
  space.reserved = memory().reserved;
  return space;
}

void HostAllocator::release_cache() {
  if (heap_) heap_->release_cache();
  ::malloc_trim(0);
}

std::unique_ptr<at::ObserverContext> span_begins(const at::RecordFunction& span) {
  host_allocator().spans().begin(span.name(), host_allocator().current());
  return nullptr;
}

void span_ends(const at::RecordFunction& span, at::ObserverContext*) {
  host_allocator().spans().end(span.name(), host_allocator().current());
}

at::CallbackHandle add_span_callback() {
  return at::addGlobalCallback(
      at::RecordFunctionCallback(&span_begins, &span_ends).scopes({at::RecordScope::USER_SCOPE}));
}

}  // namespace

void install_host_allocator(HostMemory kind) {
  host_allocator().use(kind);
  c10::SetCPUAllocator(&host_allocator(), /*priority=*/1);
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
FreeSpace host_free_space() {
  return host_allocator().free_space();
}
void release_host_cache() {
  host_allocator().release_cache();
}

std::map<std::string, std::int64_t> host_peak_by_span() {
  return host_allocator().spans().peaks(host_allocator().current());
}

void record_memory_by_span(bool on) {
  host_allocator().spans().record(on, &add_span_callback);
}

}  // namespace trainctl
