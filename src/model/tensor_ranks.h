// Layers whose features are split over ranks, so that each rank has a part of a layer's weights and of its work: tensor
// parallelism as Megatron-LM does it (https://arxiv.org/abs/1909.08053), with sequence parallelism between those layers
// (https://arxiv.org/abs/2205.05198).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace trainctl::model {

/// The ranks that share each layer. All of them compute on the same samples, and call the functions at the same places.
struct TensorRanks {
  std::int64_t rank = 0;
  std::int64_t size = 1;
  std::function<void(at::Tensor& value)> sum;  // in place, over the ranks
  std::function<void(at::Tensor& value)> max;
  /// Sequence parallelism: after the first block and before the last, a rank has some tokens of each sample.
  bool shares_tokens = false;
  /// Writes all ranks' [...] into [size, ...].
  std::function<void(at::Tensor& all, const at::Tensor& mine)> gather;
  /// Sums [size, ...] over the ranks, and writes this rank's [...].
  std::function<void(at::Tensor& mine, const at::Tensor& all)> sum_and_scatter;
};
/// Null: layers are whole.
using TensorRanksPtr = std::shared_ptr<const TensorRanks>;

/// What a rank has of a number of features or heads.
struct FeatureRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;
};
FeatureRange range_of(std::int64_t features, const TensorRanks& ranks);

/// Returns `value`, which all ranks have and each uses for its part of a layer. The gradient is the sum over the ranks.
at::Tensor use_in_parts(const at::Tensor& value, const TensorRanksPtr& ranks);
/// Returns the sum over the ranks of what their parts of a layer give. The gradient is that of the sum.
at::Tensor sum_of_parts(const at::Tensor& part, const TensorRanksPtr& ranks);

/// Returns what a split layer computes on: `value` [B, T, D], with shared tokens gathered from [B, T / size, D]. The
/// gradient is the sum over the ranks.
at::Tensor enter_split_layer(const at::Tensor& value, const TensorRanksPtr& ranks);
/// Returns the sum over the ranks of what their parts of a layer give: `part` [B, T, D], or of that this rank's tokens.
at::Tensor leave_split_layer(const at::Tensor& part, const TensorRanksPtr& ranks);

/// Returns this rank's tokens [B, T / size, D] of `value` [B, T, D], which all ranks have. Throws Error if T isn't a
/// multiple of the number of ranks.
at::Tensor own_tokens(const at::Tensor& value, const TensorRanksPtr& ranks);
/// Returns all tokens [B, T, D], on which all ranks do the same from here on.
at::Tensor all_tokens(const at::Tensor& own, const TensorRanksPtr& ranks);

}  // namespace trainctl::model
