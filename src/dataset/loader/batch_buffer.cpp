#include "dataset/loader/batch_buffer.h"

#include <ATen/Context.h>

namespace trainctl::dataset {

BufferPool::BufferPool(Sizes sizes, HostMemoryKind kind, std::size_t most_idle)
    : sizes_(sizes), kind_(kind), most_idle_(most_idle) {}

std::shared_ptr<BufferPool> BufferPool::create(Sizes sizes, HostMemoryKind kind, std::size_t most_idle) {
  return std::shared_ptr<BufferPool>(new BufferPool(sizes, kind, most_idle));
}

std::shared_ptr<BatchBuffer> BufferPool::take() {
  std::unique_ptr<BatchBuffer> buffer;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      buffer = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!buffer) {
    c10::Allocator* allocator = kind_ == HostMemoryKind::page_locked
                                    ? at::globalContext().getPinnedMemoryAllocator(at::kCUDA)
                                    : c10::GetCPUAllocator();
    buffer = std::make_unique<BatchBuffer>(allocator->allocate(sizes_.input_bytes),
                                           allocator->allocate(sizes_.target_bytes));
  }
  return {buffer.release(),
          [pool = shared_from_this()](BatchBuffer* used) { pool->give_back(std::unique_ptr<BatchBuffer>(used)); }};
}

void BufferPool::give_back(std::unique_ptr<BatchBuffer> buffer) {
  if (kind_ == HostMemoryKind::page_locked) return;
  const std::lock_guard lock(mutex_);
  if (idle_.size() < most_idle_) idle_.push_back(std::move(buffer));
}

void BufferPool::release_idle() {
  std::vector<std::unique_ptr<BatchBuffer>> unused;
  const std::lock_guard lock(mutex_);
  unused.swap(idle_);
}

}  // namespace trainctl::dataset
