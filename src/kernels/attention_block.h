// Attention of some queries to some of the keys, from which attention to all of them is put together as
// FlashAttention does it (https://arxiv.org/abs/2205.14135): softmax over a block, with the logarithm of its sum.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/dropout.h"

namespace trainctl::kernels {

/// Repeats each head of [B, H', T, d] until there are `num_heads`.
at::Tensor repeat_heads(const at::Tensor& heads, std::int64_t num_heads);

/// Which weights of a block there are.
struct BlockWeights {
  bool is_causal = false;  // as many keys as queries, of the same tokens
  at::Tensor mask{};       // bool [B, 1, T, S], true where a query may see a key; undefined: all, or as is_causal says
  double dropout = 0;
  runtime::SampleRandomness::Draw draw{};  // for dropout
  WeightPlace place{};                     // for dropout
};

struct AttentionBlock {
  at::Tensor output;    // [B, H, T, d]
  at::Tensor log_sums;  // float or double [B, H, T]: of the exponentials of scores; -∞ where a query sees no key
};

/// q [B, H, T, d]; k, v [B, H or a divisor of it, S, d]. Not differentiable.
AttentionBlock attention_block(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const BlockWeights& weights);
/// Adds another block's output for the same queries to `whole`, in place.
void add_block(AttentionBlock& whole, const AttentionBlock& block);

struct AttentionGradients {
  at::Tensor q, k, v;  // in the types of q, k and v
};
/// Returns what a block adds to the gradients. `whole`: attention to all keys, its output in the type of q.
AttentionGradients attention_block_gradients(const at::Tensor& gradient, const at::Tensor& q, const at::Tensor& k,
                                             const at::Tensor& v, const AttentionBlock& whole,
                                             const BlockWeights& weights);

}  // namespace trainctl::kernels
