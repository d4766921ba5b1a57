#include "model/layers/ring_attention.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "kernels/attention_block.h"
#include "runtime/span.h"

namespace trainctl::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What both passes know of the sequences. `ranks` outlives the graph, as the model does.
struct Shared final : torch::CustomClassHolder {
  Shared(const SequenceContext& context, const RingAttentionOptions& options)
      : ranks(*context.ranks),
        documents(context.documents),
        key_mask(context.key_mask),
        dropout(options.dropout),
        heads(options.heads),
        window(options.window),
        draw(options.dropout > 0 ? kernels::next_draw() : runtime::SampleRandomness::Draw{}) {}

  const ContextRanks& ranks;
  at::Tensor documents;  // int64 [B, T of all]
  at::Tensor key_mask;   // bool [B, T of all]
  double dropout;
  kernels::HeadRange heads;
  std::int64_t window;  // 0: no limit
  runtime::SampleRandomness::Draw draw;

  /// Returns whose keys a rank has after so many of them were passed on.
  std::int64_t source(std::int64_t step) const { return (ranks.rank - step + ranks.size) % ranks.size; }

  /// Returns how the queries of one chunk of `q` see the keys of another, or of the same.
  kernels::BlockWeights weights(std::int64_t queries, std::int64_t keys, const at::Tensor& q) const {
    const std::int64_t length = q.size(2) / 2;
    kernels::BlockWeights weights{
        .is_causal = queries == keys,
        .dropout = dropout,
        .draw = draw,
        .place = {.heads = heads, .first_query = queries * length, .first_key = keys * length}};
    if (documents.defined())
      weights.mask = documents.narrow(1, queries * length, length)
                         .unsqueeze(2)
                         .eq(documents.narrow(1, keys * length, length).unsqueeze(1))
                         .unsqueeze(1);
    if (key_mask.defined()) {
      const at::Tensor seen = key_mask.narrow(1, keys * length, length).unsqueeze(1).unsqueeze(1);
      weights.mask = weights.mask.defined() ? weights.mask.logical_and(seen) : seen.expand({-1, -1, length, -1});
    }
    if (window > 0) {
      const auto ids = at::TensorOptions(q.device()).dtype(at::kLong);
      const at::Tensor oldest = at::arange(queries * length, (queries + 1) * length, ids).sub_(window - 1).unsqueeze(1);
      const at::Tensor near = at::arange(keys * length, (keys + 1) * length, ids).unsqueeze(0).ge(oldest);
      const at::Tensor seen = near.expand({q.size(0), 1, length, length});
      weights.mask = weights.mask.defined() ? weights.mask.logical_and(seen) : seen;
    }
    if (weights.mask.defined() && weights.is_causal) {
      weights.mask = weights.mask.logical_and(at::ones({length, length}, weights.mask.options()).tril_());
      weights.is_causal = false;
    }
    return weights;
  }

  /// Returns whether queries of one chunk see keys of another.
  bool sees(std::int64_t queries, std::int64_t keys, std::int64_t length) const {
    return keys <= queries && (window == 0 || (queries - keys) * length - (length - 1) < window);
  }

  /// Calls `use(own chunk, other chunk, weights)` for the queries of each of this rank's chunks and the keys of those
  /// of rank `source` that they see. Chunks are 0 and 1.
  template <class Use>
  void for_each_block(std::int64_t source, const at::Tensor& q, const Use& use) const {
    const std::int64_t length = q.size(2) / 2;
    const auto own = ranks.chunks_of(ranks.rank);
    const auto other = ranks.chunks_of(source);
    for (std::size_t i = 0; i < own.size(); ++i)
      for (std::size_t j = 0; j < other.size(); ++j)
        if (sees(own[i], other[j], length)) use(i, j, weights(own[i], other[j], q));
  }
};

at::Tensor chunk_of(const at::Tensor& heads, std::size_t number) {
  const std::int64_t length = heads.size(-2) / 2;
  return heads.narrow(-2, static_cast<std::int64_t>(number) * length, length);
}

/// Keys and values [2, B, H, T, d] of a rank, on their way.
class Passing {
 public:
  explicit Passing(const ContextRanks& ranks) : ranks_(ranks) {}
  void start(const at::Tensor& mine) {
    theirs_ = at::empty_like(mine);
    wait_ = ranks_.pass_on(mine, theirs_);
  }
  at::Tensor received() {
    const runtime::Span span("wait for keys and values");
    wait_();
    return std::move(theirs_);
  }

 private:
  const ContextRanks& ranks_;
  at::Tensor theirs_;
  std::function<void()> wait_;
};

kernels::AttentionBlock attend_around(const Shared& shared, const at::Tensor& q, const at::Tensor& own) {
  const auto sums = q.options().dtype(q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  kernels::AttentionBlock whole{
      .output = at::zeros(q.sizes(), sums),
      .log_sums = at::full({q.size(0), q.size(1), q.size(2)}, -std::numeric_limits<double>::infinity(), sums)};
  at::Tensor here = own;
  Passing passing(shared.ranks);
  for (std::int64_t step = 0; step < shared.ranks.size; ++step) {
    const bool is_last = step + 1 == shared.ranks.size;
    if (!is_last) passing.start(here);
    shared.for_each_block(
        shared.source(step), q, [&](std::size_t mine, std::size_t theirs, const kernels::BlockWeights& weights) {
          kernels::AttentionBlock rows{.output = chunk_of(whole.output, mine),
                                       .log_sums = chunk_of(whole.log_sums.unsqueeze(-1), mine).squeeze(-1)};
          kernels::add_block(rows, kernels::attention_block(chunk_of(q, mine), chunk_of(here[0], theirs),
                                                            chunk_of(here[1], theirs), weights));
        });
    if (!is_last) here = passing.received();
  }
  return whole;
}

struct RingAttention final : torch::autograd::Function<RingAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const c10::intrusive_ptr<Shared>& shared) {
    const at::Tensor own = at::stack({k, v});
    const kernels::AttentionBlock whole = attend_around(*shared, q, own);
    at::Tensor output = whole.output.to(q.scalar_type());
    // A query that sees nothing has no weights: the exponential of (a score - ∞) is 0.
    whole.log_sums.masked_fill_(whole.log_sums.isinf(), std::numeric_limits<double>::infinity());
    context->save_for_backward({q, own, output, whole.log_sums});
    context->saved_data["shared"] = c10::IValue::make_capsule(shared);
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const auto& shared = static_cast<const Shared&>(*context->saved_data["shared"].toCapsule());
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& q = saved[0];
    const at::Tensor gradient = output_gradients[0].contiguous();
    at::Tensor here = saved[1];
    at::Tensor to_queries = at::zeros(q.sizes(), saved[3].options());
    at::Tensor to_here;  // the gradient of `here`, from the ranks where it was
    Passing passing(shared.ranks);
    Passing passing_gradients(shared.ranks);
    for (std::int64_t step = 0; step < shared.ranks.size; ++step) {
      const bool is_last = step + 1 == shared.ranks.size;
      if (!is_last) passing.start(here);
      at::Tensor added = at::zeros(here.sizes(), saved[3].options());
      shared.for_each_block(
          shared.source(step), q, [&](std::size_t mine, std::size_t theirs, const kernels::BlockWeights& weights) {
            const kernels::AttentionBlock whole{.output = chunk_of(saved[2], mine),
                                                .log_sums = chunk_of(saved[3].unsqueeze(-1), mine).squeeze(-1)};
            const kernels::AttentionGradients block = kernels::attention_block_gradients(
                chunk_of(gradient, mine), chunk_of(q, mine), chunk_of(here[0], theirs), chunk_of(here[1], theirs),
                whole, weights);
            chunk_of(to_queries, mine).add_(block.q);
            chunk_of(added[0], theirs).add_(block.k);
            chunk_of(added[1], theirs).add_(block.v);
          });
      to_here = step == 0 ? added : passing_gradients.received().add_(added);
      passing_gradients.start(to_here);
      if (!is_last) here = passing.received();
    }
    const at::Tensor to_own = passing_gradients.received().to(q.scalar_type());
    return {to_queries.to(q.scalar_type()), to_own[0], to_own[1], at::Tensor()};
  }
};

}  // namespace

at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const SequenceContext& context,
                          const RingAttentionOptions& options) {
  const c10::DeviceType device = q.device().type();
  const at::ScalarType type =
      at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device) : q.scalar_type();
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return RingAttention::apply(q.to(type), k.to(type), v.to(type), c10::make_intrusive<Shared>(context, options));
}

}  // namespace trainctl::model
