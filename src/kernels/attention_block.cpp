#include "kernels/attention_block.h"

#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>
#include <tuple>

namespace trainctl::kernels {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();
constexpr std::int64_t kAlignment = 32;  // of the tokens that CUDA's kernel takes as they are: it pads others

enum class Way { cpu_kernel, cuda_kernel, single_operators };

/// LibTorch's kernels have no dropout on CPUs, and that on GPUs isn't a function of the sample.
Way way_for(const at::Tensor& q, const at::Tensor& k, const BlockWeights& weights) {
  if (weights.dropout > 0) return Way::single_operators;
  if (q.is_cpu()) return Way::cpu_kernel;
  const bool is_aligned = q.size(2) % kAlignment == 0 && k.size(2) % kAlignment == 0 && q.size(3) % 8 == 0;
  return q.is_cuda() && is_aligned && q.scalar_type() != at::kDouble ? Way::cuda_kernel : Way::single_operators;
}

/// The type in which blocks are added up.
at::ScalarType sum_type(const at::Tensor& values) {
  return values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// Sums gradients of repeat_heads() over the heads that share a key.
at::Tensor sum_of_repeated_heads(const at::Tensor& gradient, const at::Tensor& heads) {
  const std::int64_t num_heads = heads.size(1);
  if (gradient.size(1) == num_heads) return gradient;
  return gradient.unflatten(1, {num_heads, gradient.size(1) / num_heads}).sum(2);
}

/// Returns the mask as what is added to the scores of `q`: [B, H, T, S]. CUDA's kernel doesn't broadcast.
std::optional<at::Tensor> additive(const BlockWeights& weights, const at::Tensor& q) {
  const at::Tensor& mask = weights.mask;
  if (!mask.defined()) return std::nullopt;
  const at::Tensor added = at::zeros(mask.sizes(), q.options()).masked_fill_(mask.logical_not(), kHidden);
  return added.expand({q.size(0), q.size(1), mask.size(-2), mask.size(-1)});
}

at::Tensor scores_of(const at::Tensor& q, const at::Tensor& keys, const BlockWeights& weights) {
  const at::Tensor scaled = q.mul(1 / std::sqrt(static_cast<double>(q.size(3))));
  at::Tensor scores = at::matmul(scaled, keys.transpose(2, 3)).to(sum_type(q));  // [B, H, T, S]
  if (weights.mask.defined()) return scores.masked_fill_(weights.mask.logical_not(), kHidden);
  if (weights.is_causal) scores.add_(at::full({scores.size(2), scores.size(3)}, kHidden, scores.options()).triu_(1));
  return scores;
}

at::Tensor dropped(const at::Tensor& values, const BlockWeights& weights) {
  return weights.dropout == 0 ? values : drop_weights(values, weights.dropout, weights.draw, weights.place);
}

AttentionBlock block_by_single_operators(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values,
                                         const BlockWeights& weights) {
  const at::Tensor scores = scores_of(q, keys, weights);
  const at::Tensor log_sums = at::logsumexp(scores, {-1});
  const at::Tensor shares = at::exp(scores.sub(log_sums.unsqueeze(-1)));
  return {.output = at::matmul(dropped(shares, weights).to(values.scalar_type()), values), .log_sums = log_sums};
}

AttentionGradients gradients_by_single_operators(const at::Tensor& gradient, const at::Tensor& q,
                                                 const at::Tensor& keys, const at::Tensor& values,
                                                 const AttentionBlock& whole, const BlockWeights& weights) {
  const at::ScalarType type = q.scalar_type();
  const at::Tensor shares = at::exp(scores_of(q, keys, weights).sub_(whole.log_sums.unsqueeze(-1)));
  const at::Tensor mean = gradient.mul(whole.output).to(shares.scalar_type()).sum(-1, /*keepdim=*/true);
  const at::Tensor of_shares = dropped(at::matmul(gradient, values.transpose(2, 3)).to(shares.scalar_type()), weights);
  const at::Tensor of_scores =
      shares.mul(of_shares.sub(mean)).mul_(1 / std::sqrt(static_cast<double>(q.size(3)))).to(type);
  return {.q = at::matmul(of_scores, keys),
          .k = at::matmul(of_scores.transpose(2, 3), q),
          .v = at::matmul(dropped(shares, weights).to(type).transpose(2, 3), gradient)};
}

/// What both passes give a kernel beside the queries.
struct Operands {
  at::Tensor keys;  // as many heads as queries
  at::Tensor values;
  Way way;
  std::optional<at::Tensor> mask;  // to add to scores; none for single operators

  Operands(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const BlockWeights& weights)
      : keys(repeat_heads(k, q.size(1))),
        values(repeat_heads(v, q.size(1))),
        way(way_for(q, k, weights)),
        mask(way == Way::single_operators ? std::nullopt : additive(weights, q)) {}
};

}  // namespace

at::Tensor repeat_heads(const at::Tensor& heads, std::int64_t num_heads) {
  return heads.size(1) == num_heads ? heads : heads.repeat_interleave(num_heads / heads.size(1), 1);
}

AttentionBlock attention_block(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const BlockWeights& weights) {
  const auto [keys, values, way, mask] = Operands(q, k, v, weights);
  AttentionBlock block;
  if (way == Way::cpu_kernel)
    std::tie(block.output, block.log_sums) =
        at::_scaled_dot_product_flash_attention_for_cpu(q, keys, values, 0, weights.is_causal, mask);
  else if (way == Way::cuda_kernel)
    std::tie(block.output, block.log_sums, std::ignore, std::ignore) = at::_scaled_dot_product_efficient_attention(
        q, keys, values, mask, /*compute_log_sumexp=*/true, 0, weights.is_causal);
  else
    block = block_by_single_operators(q, keys, values, weights);
  block.output = block.output.to(sum_type(q));
  if (!weights.mask.defined()) return block;
  // Kernels differ in what they give to a query that sees nothing.
  const at::Tensor sees_nothing = weights.mask.any(-1).logical_not();  // [B, 1, T]
  return {.output = block.output.masked_fill(sees_nothing.unsqueeze(-1), 0),
          .log_sums = block.log_sums.masked_fill(sees_nothing, kHidden)};
}

void add_block(AttentionBlock& whole, const AttentionBlock& block) {
  const at::Tensor sum = at::logaddexp(whole.log_sums, block.log_sums);
  const auto share = [&](const AttentionBlock& part) {  // of a query that sees nothing yet: 0
    return at::exp(part.log_sums.sub(sum)).masked_fill_(part.log_sums.eq(kHidden), 0).unsqueeze(-1);
  };
  whole.output.mul_(share(whole)).add_(block.output.mul(share(block)));
  whole.log_sums.copy_(sum);
}

AttentionGradients attention_block_gradients(const at::Tensor& gradient, const at::Tensor& q, const at::Tensor& k,
                                             const at::Tensor& v, const AttentionBlock& whole,
                                             const BlockWeights& weights) {
  const auto [keys, values, way, mask] = Operands(q, k, v, weights);
  AttentionGradients to;
  if (way == Way::cpu_kernel) {
    std::tie(to.q, to.k, to.v) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gradient, q, keys, values, whole.output, whole.log_sums, 0, weights.is_causal, mask);
  } else if (way == Way::cuda_kernel) {
    const at::Tensor unused = at::empty({}, q.options().dtype(at::kLong));  // the state of a generator
    std::tie(to.q, to.k, to.v, std::ignore) = at::_scaled_dot_product_efficient_attention_backward(
        gradient, q, keys, values, mask.value_or(at::Tensor()), whole.output, whole.log_sums, unused, unused, 0,
        {true, true, true, false}, weights.is_causal);
  } else {
    to = gradients_by_single_operators(gradient, q, keys, values, whole, weights);
  }
  return {.q = to.q, .k = sum_of_repeated_heads(to.k, k), .v = sum_of_repeated_heads(to.v, v)};
}

}  // namespace trainctl::kernels
