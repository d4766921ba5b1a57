// Attention of sequences that are split over ranks: keys and values pass through the ranks in a ring, while each rank
// computes with those that it has (Ring Attention, https://arxiv.org/abs/2310.01889).
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/dropout.h"
#include "model/sequence.h"

namespace trainctl::model {

struct RingAttentionOptions {
  double dropout = 0;  // of attention weights; as one rank would drop them
  kernels::HeadRange heads{};
  std::int64_t window = 0;  // keys that a query sees, its own counted; 0: no limit
};

/// softmax(q kᵀ / √d) v of this rank's queries and all ranks' keys, causal and within documents: [B, H, T, d], T of
/// this rank. k, v [B, H or a divisor of it, T, d]. Called by all of context.ranks, whose backward passes meet too.
at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const SequenceContext& context,
                          const RingAttentionOptions& options);

}  // namespace trainctl::model
