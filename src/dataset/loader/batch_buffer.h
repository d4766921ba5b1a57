// Memory of batches: filled by the loader's threads, lent to the consumer as tensors, used again when those are gone.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <memory>
#include <mutex>
#include <vector>

#include "dataset/dataset.h"

namespace trainctl::dataset {

/// Room for one batch's inputs and targets, each aligned to 64 bytes at least.
struct BatchBuffer {
  c10::DataPtr inputs;
  c10::DataPtr targets;
};

/// Page-locked memory needs a GPU.
enum class HostMemoryKind { pageable, page_locked };

/// Hands out buffers and takes them back when their last owner lets go, on whichever thread and even after the pool's
/// owner is gone. Page-locked buffers go back to LibTorch's cache instead: only it knows when the GPU has read them.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  struct Sizes {
    std::size_t input_bytes = 0;
    std::size_t target_bytes = 0;
  };

  /// Keeps at most `most_idle` buffers for reuse.
  static std::shared_ptr<BufferPool> create(Sizes sizes, HostMemoryKind kind, std::size_t most_idle);

  std::shared_ptr<BatchBuffer> take();
  /// Frees the buffers that nobody uses.
  void release_idle();

 private:
  BufferPool(Sizes sizes, HostMemoryKind kind, std::size_t most_idle);
  void give_back(std::unique_ptr<BatchBuffer> buffer);

  const Sizes sizes_;
  const HostMemoryKind kind_;
  const std::size_t most_idle_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<BatchBuffer>> idle_;
};

}  // namespace trainctl::dataset
