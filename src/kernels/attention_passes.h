// Both passes of attention of short sequences, head by head. For this folder alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/attention_rows.h"
#include "kernels/dropout.h"

namespace trainctl::kernels {

/// Which weights are dropped: those that dropout_attention() drops with this draw.
struct WeightDrops {
  double probability = 0;
  runtime::SampleRandomness::Draw draw{};
  HeadRange heads{};  // of how many all queries' heads are
};

/// Sizes, and which weights there are.
struct AttentionProblem {
  std::int64_t batch, heads, kv_heads, tokens, size;
  float scale;
  const bool* mask;  // null: no mask
  std::int64_t mask_batch_stride, mask_row_stride;
  Visible visible;
  WeightDrops drops;

  AttentionProblem(const at::Tensor& q, const at::Tensor& k, const at::Tensor& mask_, Visible visible_,
                   const WeightDrops& drops_)
      : batch(q.size(0)),
        heads(q.size(1)),
        kv_heads(k.size(1)),
        tokens(q.size(2)),
        size(q.size(3)),
        scale(1 / std::sqrt(static_cast<float>(q.size(3)))),
        mask(mask_.defined() ? mask_.const_data_ptr<bool>() : nullptr),
        mask_batch_stride(mask_.defined() && mask_.size(0) > 1 ? mask_.stride(0) : 0),
        mask_row_stride(mask_.defined() && mask_.size(2) > 1 ? mask_.stride(2) : 0),
        visible(mask_.defined() ? Visible::all : visible_),
        drops(drops_) {}

  std::int64_t group() const { return heads / kv_heads; }
  /// Number of keys that the queries before `end` may see.
  std::int64_t seen_before(std::int64_t end) const { return visible == Visible::all ? tokens : end; }
  /// First query that may see keys from `begin` on.
  std::int64_t first_to_see(std::int64_t begin) const { return visible == Visible::all ? 0 : begin; }
  SeenKeys seen_by(std::int64_t b, std::int64_t query) const {
    return {.count = seen_before(query + 1),
            .mask = mask == nullptr ? nullptr : mask + b * mask_batch_stride + query * mask_row_stride};
  }
};

/// Fills `output` [B, H, T, d], in the type of q, and the logarithms of the sums, float [B, H, T].
void attention_forward(const AttentionProblem& problem, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       at::Tensor& output, at::Tensor& log_sums);

struct AttentionBackwardInputs {
  const at::Tensor &q, &k, &v, &output, &log_sums, &gradient;
};
struct AttentionBackwardOutputs {
  at::Tensor q, k, v;
};
/// Fills the gradients.
void attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& from,
                        const AttentionBackwardOutputs& to);

}  // namespace trainctl::kernels
