// Scaled dot-product attention on [B, H, T, d], by LibTorch's flash kernels where they can. Dropout of its weights is a
// function of the sample on a CPU; on a GPU, where it is fused, the device's default generator and the batch decide.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/dropout.h"
#include "model/sequence.h"

namespace trainctl::model {

/// [B, T, H d] -> [B, H, T, d], a view.
at::Tensor split_heads(const at::Tensor& hidden, std::int64_t num_heads);
/// [B, H, T, d] -> [B, T, H d]; a view of what attend() returns.
at::Tensor merge_heads(const at::Tensor& heads);

/// Returns which of all heads a rank has.
kernels::HeadRange heads_of_rank(std::int64_t num_heads, const TensorRanks& ranks);

struct AttentionOptions {
  std::size_t layer = 0;       // which attention layer of the model this is: its place in the cache
  double dropout = 0;          // of attention weights; 0 outside training
  kernels::HeadRange heads{};  // where a rank has some of the heads
  std::int64_t window = 0;     // keys that a query sees where ranks share sequences; 0: no limit
  double softcap = 0;          // scores become softcap · tanh(score / softcap); 0: they stay
};

/// softmax(q kᵀ / √d) v where the context's mask (or causality) allows; its position_bias is added to the scores. q [B,
/// H, T, d]; k, v [B, H or a divisor of it (grouped-query attention), T, d]. With a cache, k and v are put behind those
/// of earlier tokens.
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const SequenceContext& context,
                  const AttentionOptions& options);
/// Does the same for what one matrix computed: q, k and v side by side, [B, T, 3 H d].
at::Tensor attend(const at::Tensor& joined, std::int64_t num_heads, const SequenceContext& context,
                  const AttentionOptions& options);

}  // namespace trainctl::model
