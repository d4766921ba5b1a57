// Sequences that are split over ranks, so that each rank has some tokens of every sample: context parallelism. A
// sequence is cut into twice as many chunks as ranks, and a rank has one from the front and the one as far from the
// end, so that causal attention gives all ranks the same work ("zigzag", https://arxiv.org/abs/2407.21783, 3.3.2).
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/element_runs.h"

namespace trainctl::model {

/// The ranks that share each sequence. All of them compute on the same samples, and call the functions at the same
/// places.
struct ContextRanks {
  std::int64_t rank = 0;
  std::int64_t size = 1;
  /// Starts to send `mine` to the next rank and to receive `theirs`, of the same size, from the one before. What it
  /// returns waits for both.
  std::function<std::function<void()>(const at::Tensor& mine, at::Tensor& theirs)> pass_on;

  std::int64_t num_chunks() const { return 2 * size; }
  /// The numbers of the two chunks that a rank has, in order.
  std::array<std::int64_t, 2> chunks_of(std::int64_t of_rank) const { return {of_rank, num_chunks() - 1 - of_rank}; }
  /// Returns the places of this rank's tokens in a sequence of `length`, a multiple of num_chunks(): int64 [length /
  /// size].
  at::Tensor places(std::int64_t length, c10::Device device) const;
  /// Returns which elements of whole sequences [B, T, ...] those of this rank's `part` [B, T / size, ...] are.
  runtime::ElementRuns runs_of(const at::Tensor& part) const;
};
/// Null: sequences are whole.
using ContextRanksPtr = std::shared_ptr<const ContextRanks>;

}  // namespace trainctl::model
