#include "model/layers/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

namespace trainctl {

at::Tensor split_heads(const at::Tensor& hidden, std::int64_t num_heads) {
  return hidden.unflatten(-1, {num_heads, hidden.size(-1) / num_heads}).transpose(1, 2);
}

at::Tensor merge_heads(const at::Tensor& heads) {
  return heads.transpose(1, 2).flatten(2);
}

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const SequenceContext& context,
                  const AttentionOptions& options) {
  at::Tensor keys = k;
  at::Tensor values = v;
  if (context.cache != nullptr) {
    const KeyValueCache::KeysValues all = context.cache->append(options.layer, k, v);
    keys = all.keys;
    values = all.values;
  }
  return at::scaled_dot_product_attention(q, keys, values,
                                          context.mask.defined() ? std::optional(context.mask) : std::nullopt,
                                          options.dropout, context.is_causal, /*scale=*/std::nullopt,
                                          /*enable_gqa=*/q.size(1) != keys.size(1));
}

}  // namespace trainctl
