// From rows of samples in a loader's buffer to a batch's tensors, in the same memory: it may be page-locked.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>

#include "dataset/collate/sample_writer.h"

namespace trainctl::dataset {

/// The target of a token that no loss is asked for, as PyTorch's ignore_index has it.
inline constexpr std::int32_t kNoTarget = -100;
inline constexpr std::int64_t kIdBytes = sizeof(std::int64_t);

/// What rows consist of: `width` values from `begin` on.
struct RowPart {
  std::int64_t begin = 0;
  std::int64_t width = 0;
};

/// Rows of int64 values as a writer leaves them.
struct SampleRows {
  std::int64_t* values = nullptr;
  std::int64_t count = 0;
  std::int64_t stride = 0;
};

/// Moves the parts to the front of the rows' memory: the first part of all rows, then the second of all, and so on.
void pack_rows(const SampleRows& rows, std::span<const RowPart> parts);

/// Cuts memory into tensors, one after another. They call `release` when they are freed.
class BatchMemory {
 public:
  BatchMemory(void* memory, const std::function<void(void*)>& release)
      : next_(static_cast<std::byte*>(memory)), release_(release) {}

  at::Tensor take(at::IntArrayRef sizes, at::ScalarType type);
  /// Which of targets [B, T], counted through, aren't -100: int64 [N].
  at::Tensor take_target_positions(const at::Tensor& targets);
  /// bool [B, width], true up to each row's length. Take it last: what follows wouldn't be aligned.
  at::Tensor take_key_mask(std::span<const std::int64_t> lengths, std::int64_t width);

 private:
  std::byte* next_;
  const std::function<void(void*)>& release_;
};

}  // namespace trainctl::dataset
