#include "model/layers/attention.h"

#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "kernels/attention.h"
#include "kernels/attention_block.h"
#include "kernels/dropout.h"
#include "kernels/portable.h"
#include "model/layers/ring_attention.h"

namespace trainctl::model {
namespace {

/// Returns the mask to add to scores: 0 if a query may see a key, else -∞. It is undefined if all keys are visible.
at::Tensor additive_mask(const at::Tensor& scores, const SequenceContext& context) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  if (context.mask.defined())
    return at::zeros(context.mask.sizes(), scores.options()).masked_fill_(context.mask.logical_not(), kNever);
  if (context.is_causal) return at::full({scores.size(2), scores.size(3)}, kNever, scores.options()).triu_(1);
  return {};
}

/// Hides the keys that a query may not see, by operators that every exported graph has. Each query sees a key.
at::Tensor hidden_portably(const at::Tensor& scores, const SequenceContext& context) {
  at::Tensor visible = context.mask;
  if (!visible.defined() && !context.is_causal) return scores;
  if (!visible.defined()) {
    const at::Tensor places = at::arange(scores.size(3), scores.options().dtype(at::kLong));
    visible = places.unsqueeze(0).le(places.unsqueeze(1));
  }
  return scores.masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity());
}

/// Returns what softmax makes of the scores [B, H, T, S].
at::Tensor softmax_of(at::Tensor scores, const SequenceContext& context) {
  if (kernels::PortableOperators::are_wanted()) return at::softmax(hidden_portably(scores, context), -1);
  if (const at::Tensor mask = additive_mask(scores, context); mask.defined()) scores.add_(mask);
  // Only a mask can leave a query without visible keys.
  return context.mask.defined() ? at::_safe_softmax(scores, -1) : at::softmax(scores, -1);
}

/// Repeats keys or values until there are as many heads as of queries.
at::Tensor heads_for_queries(const at::Tensor& heads, std::int64_t num_heads) {
  if (!kernels::PortableOperators::are_wanted() || heads.size(1) == num_heads)
    return kernels::repeat_heads(heads, num_heads);
  return heads.unsqueeze(2).expand({-1, -1, num_heads / heads.size(1), -1, -1}).flatten(1, 2);
}

/// Computes attention in single operators: LibTorch's kernels have no soft cap, no gradient of a bias everywhere, and
/// on CPUs no dropout. There the dropped weights come from our own dropout.
at::Tensor attend_by_scores(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const SequenceContext& context, const AttentionOptions& options) {
  const at::Tensor scaled = q.mul(1 / std::sqrt(static_cast<double>(q.size(3))));
  at::Tensor scores = at::matmul(scaled, heads_for_queries(k, q.size(1)).transpose(2, 3));  // [B, H, T, S]
  if (options.softcap > 0) scores = scores.div(options.softcap).tanh().mul(options.softcap);
  if (context.position_bias.defined()) scores = scores.add(context.position_bias);
  const at::Tensor weights = softmax_of(scores, context);
  const at::Tensor kept =
      options.dropout > 0 ? kernels::dropout_attention(weights, options.dropout, options.heads) : weights;
  return at::matmul(kept, heads_for_queries(v, q.size(1)));
}

kernels::Visible visible_in(const SequenceContext& context) {
  return context.is_causal ? kernels::Visible::up_to_itself : kernels::Visible::all;
}

bool takes_short_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const SequenceContext& context, const AttentionOptions& options) {
  return kernels::suits_short_attention(q, k, v, context.mask) &&
         (options.dropout > 0 || kernels::short_attention_is_faster(q, visible_in(context)));
}

}  // namespace

at::Tensor split_heads(const at::Tensor& hidden, std::int64_t num_heads) {
  return hidden.unflatten(-1, {num_heads, hidden.size(-1) / num_heads}).transpose(1, 2);
}

at::Tensor merge_heads(const at::Tensor& heads) {
  return heads.transpose(1, 2).flatten(2);
}

kernels::HeadRange heads_of_rank(std::int64_t num_heads, const TensorRanks& ranks) {
  return {.first = range_of(num_heads, ranks).begin, .of = num_heads};
}

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const SequenceContext& context,
                  const AttentionOptions& options) {
  if (context.ranks != nullptr)
    return ring_attention(q, k, v, context, {options.dropout, options.heads, options.window});
  at::Tensor keys = k;
  at::Tensor values = v;
  if (context.cache != nullptr) {
    const KeyValueCache::KeysValues all = context.cache->append(options.layer, k, v);
    keys = all.keys;
    values = all.values;
  }
  if (options.softcap > 0 || context.position_bias.defined())
    return attend_by_scores(q, keys, values, context, options);
  if (takes_short_attention(q, keys, values, context, options))
    return kernels::short_attention(q, keys, values, context.mask, visible_in(context),
                                    {.probability = options.dropout, .heads = options.heads});
  if (options.dropout > 0 && q.is_cpu()) return attend_by_scores(q, keys, values, context, options);
  if (q.is_cuda() && context.mask.defined()) {
    // No kernel of CUDA has both a mask and heads that share keys, but for 16 bits on the newest GPUs.
    keys = heads_for_queries(keys, q.size(1));
    values = heads_for_queries(values, q.size(1));
  }
  return at::scaled_dot_product_attention(q, keys, values,
                                          context.mask.defined() ? std::optional(context.mask) : std::nullopt,
                                          options.dropout, context.is_causal, /*scale=*/std::nullopt,
                                          /*enable_gqa=*/q.size(1) != keys.size(1));
}

at::Tensor attend(const at::Tensor& joined, std::int64_t num_heads, const SequenceContext& context,
                  const AttentionOptions& options) {
  const std::vector<at::Tensor> parts = joined.chunk(3, -1);
  const at::Tensor q = split_heads(parts[0], num_heads), k = split_heads(parts[1], num_heads),
                   v = split_heads(parts[2], num_heads);
  const bool is_plain =
      context.ranks == nullptr && context.cache == nullptr && options.softcap == 0 && !context.position_bias.defined();
  if (is_plain && takes_short_attention(q, k, v, context, options))
    return kernels::short_attention(joined, num_heads, context.mask, visible_in(context),
                                    {.probability = options.dropout, .heads = options.heads});
  return attend(q, k, v, context, options);
}

}  // namespace trainctl::model
