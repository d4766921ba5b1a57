// Attention of short sequences on the CPU, forward and backward, by scores that stay in the cache.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/dropout.h"

namespace trainctl::kernels {

enum class Visible { all, up_to_itself };

/// Returns whether short_attention() takes these tensors, and no PortableOperators are wanted. It takes floats or
/// bf16 on the CPU, and as many queries as keys, at most 512. Heads are of a multiple of 16 dense values.
bool suits_short_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask);

/// Returns whether short_attention() is faster than LibTorch's attention for tensors that it takes. LibTorch multiplies
/// bf16 by AMX, where there is that. It is faster then if nobody wants a gradient, and where over 256 tokens all see
/// each other.
bool short_attention_is_faster(const at::Tensor& q, Visible visible);

/// Attention weights are dropped as dropout_attention() drops them.
struct AttentionDropout {
  double probability = 0;
  HeadRange heads{};
};

/// softmax(q kᵀ / √d) v, [B, H, T, d]; k, v [B, H or a divisor of it, T, d]. `mask`: bool [B, 1, 1 or T, T], true where
/// a query may see a key, or undefined: as `visible` says. A query that sees nothing gives zeros. The result is dense
/// in [B, T, H, d], and of the same type; all between is float. Blocks of queries as in FlashAttention-2
/// (https://arxiv.org/abs/2307.08691), but whole rows of scores.
at::Tensor short_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                           Visible visible, const AttentionDropout& dropout = {});

/// Does the same for queries, keys and values side by side, [B, T, 3 H d]. So is their gradient.
at::Tensor short_attention(const at::Tensor& joined, std::int64_t num_heads, const at::Tensor& mask, Visible visible,
                           const AttentionDropout& dropout = {});

}  // namespace trainctl::kernels
