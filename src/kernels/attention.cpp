#include "kernels/attention.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

#include "core/error.h"
#include "kernels/attention_passes.h"
#include "kernels/portable.h"
#include "kernels/vector_math.h"
#include "machine/cpu.h"
#include "runtime/fake_tensor.h"

namespace trainctl::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kLongest = 512;  // tokens; the backward pass holds a head's probabilities and their gradients

/// Allocates [B, H, T, d] whose memory is dense in the order [B, T, H, d].
at::Tensor empty_heads(const at::Tensor& like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options()).transpose(1, 2);
}

/// What the operator's schema can take of the drops: the draw's key, its first sample, the first head and all heads.
std::vector<std::int64_t> place_of(const WeightDrops& drops) {
  return {static_cast<std::int64_t>(drops.draw.key), drops.draw.first_sample, drops.heads.first, drops.heads.of};
}
WeightDrops drops_at(double probability, c10::IntArrayRef place) {
  return {.probability = probability,
          .draw = {.key = static_cast<std::uint64_t>(place[0]), .first_sample = place[1]},
          .heads = {.first = place[2], .of = place[3]}};
}

/// Returns the output and the logarithms of the sums, [B, H, T].
std::tuple<at::Tensor, at::Tensor> run_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                               const std::optional<at::Tensor>& mask, bool causal, double dropout,
                                               c10::IntArrayRef place) {
  at::Tensor output = empty_heads(q);
  at::Tensor log_sums = at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat));
  if (runtime::is_fake(q)) return {output, log_sums};
  const AttentionProblem problem(q, k, mask.value_or(at::Tensor()), causal ? Visible::up_to_itself : Visible::all,
                                 drops_at(dropout, place));
  attention_forward(problem, q, k, v, output, log_sums);
  return {output, log_sums};
}

// Registered with LibTorch's dispatcher, so that activation checkpointing can save its outputs.
TORCH_LIBRARY_FRAGMENT(trainctl, library) {
  library.def(
      "short_attention(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal, float dropout, int[] place) -> "
      "(Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(trainctl, CPU, library) {
  library.impl("short_attention", &run_forward);
}
TORCH_LIBRARY_IMPL(trainctl, Meta, library) {
  library.impl("short_attention", &run_forward);
}

/// What a call takes beside q, k and v.
struct AttentionChoice {
  std::optional<at::Tensor> mask;
  bool causal;
  WeightDrops drops;
};
/// Heads [B, H, T, d], or gradients of them.
struct QueriesKeysValues {
  at::Tensor q, k, v;
};

/// Computes the output, and saves what the backward pass needs: `inputs` first.
at::Tensor run_and_save(AutogradContext* context, const QueriesKeysValues& heads, variable_list inputs,
                        const AttentionChoice& choice) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("trainctl::short_attention", "").typed<decltype(run_forward)>();
  const std::vector<std::int64_t> place = place_of(choice.drops);
  const auto [output, log_sums] =
      op.call(heads.q, heads.k, heads.v, choice.mask, choice.causal, choice.drops.probability, place);
  for (const at::Tensor& tensor : {output, log_sums, choice.mask.value_or(at::Tensor())}) inputs.push_back(tensor);
  context->save_for_backward(std::move(inputs));
  context->saved_data["causal"] = choice.causal;
  context->saved_data["dropout"] = choice.drops.probability;
  context->saved_data["place"] = place;
  return output;
}

/// `saved`: the output, the logarithms of the sums and the mask.
void run_backward(AutogradContext* context, const QueriesKeysValues& heads, const at::Tensor* saved,
                  const at::Tensor& given, const QueriesKeysValues& to) {
  RECORD_FUNCTION("trainctl::short_attention_backward", std::vector<c10::IValue>({heads.q, heads.k, heads.v}));
  if (runtime::is_fake(heads.q)) return;
  const at::Tensor gradient = given.stride(3) == 1 ? given : given.contiguous();
  const AttentionProblem problem(
      heads.q, heads.k, saved[2], context->saved_data["causal"].toBool() ? Visible::up_to_itself : Visible::all,
      drops_at(context->saved_data["dropout"].toDouble(), context->saved_data["place"].toIntVector()));
  attention_backward(
      problem,
      {.q = heads.q, .k = heads.k, .v = heads.v, .output = saved[0], .log_sums = saved[1], .gradient = gradient},
      {.q = to.q, .k = to.k, .v = to.v});
}

struct ShortAttention final : torch::autograd::Function<ShortAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionChoice& choice) {
    return run_and_save(context, {q, k, v}, {q, k, v}, choice);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const variable_list saved = context->get_saved_variables();
    const QueriesKeysValues to{empty_heads(saved[0]), empty_heads(saved[1]), empty_heads(saved[2])};
    run_backward(context, {saved[0], saved[1], saved[2]}, &saved[3], output_gradients[0], to);
    return {to.q, to.k, to.v, at::Tensor()};
  }
};

QueriesKeysValues heads_of_joined(const at::Tensor& joined, std::int64_t num_heads) {
  const at::Tensor parts = joined.unflatten(-1, {3, num_heads, joined.size(-1) / (3 * num_heads)});
  const auto part = [&](std::int64_t index) { return parts.select(2, index).transpose(1, 2); };
  return {part(0), part(1), part(2)};
}

struct JoinedShortAttention final : torch::autograd::Function<JoinedShortAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& joined, std::int64_t num_heads,
                            const AttentionChoice& choice) {
    context->saved_data["heads"] = num_heads;
    return run_and_save(context, heads_of_joined(joined, num_heads), {joined}, choice);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const variable_list saved = context->get_saved_variables();
    const std::int64_t num_heads = context->saved_data["heads"].toInt();
    const at::Tensor gradient = at::empty(saved[0].sizes(), saved[0].options());
    run_backward(context, heads_of_joined(saved[0], num_heads), &saved[1], output_gradients[0],
                 heads_of_joined(gradient, num_heads));
    return {gradient, at::Tensor(), at::Tensor()};
  }
};

AttentionChoice choice_of(const at::Tensor& mask, Visible visible, const AttentionDropout& dropout) {
  core::ensure(dropout.probability >= 0 && dropout.probability < 1, "short_attention takes a probability in [0, 1)");
  WeightDrops drops{.probability = dropout.probability, .heads = dropout.heads};
  if (dropout.probability > 0) drops.draw = next_draw();
  return {.mask = mask.defined() ? std::optional(mask) : std::nullopt,
          .causal = visible == Visible::up_to_itself,
          .drops = drops};
}

bool suits(const at::Tensor& heads) {
  const at::ScalarType type = heads.scalar_type();
  return heads.is_cpu() && (type == at::kFloat || type == at::kBFloat16) && heads.dim() == 4 && heads.stride(3) == 1;
}

}  // namespace

bool suits_short_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask) {
  return !PortableOperators::are_wanted() && suits(q) && suits(k) && suits(v) && q.scalar_type() == k.scalar_type() &&
         q.scalar_type() == v.scalar_type() && q.size(2) == k.size(2) && q.size(2) <= kLongest && q.numel() > 0 &&
         q.size(3) % kMaxLanes == 0 && q.size(3) == v.size(3) &&
         (!mask.defined() || (mask.scalar_type() == at::kBool && mask.dim() == 4 && mask.size(1) == 1 &&
                              mask.size(3) == k.size(2) && mask.stride(3) == 1));
}

bool short_attention_is_faster(const at::Tensor& q, Visible visible) {
  if (q.scalar_type() != at::kBFloat16 || !machine::onednn_features().amx_bf16) return true;
  if (!at::GradMode::is_enabled() || !q.requires_grad()) return false;
  constexpr std::int64_t kFewTokens = 256;
  return visible == Visible::up_to_itself || q.size(2) <= kFewTokens;
}

at::Tensor short_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                           Visible visible, const AttentionDropout& dropout) {
  core::ensure(suits_short_attention(q, k, v, mask), "short_attention was given what it doesn't take");
  return ShortAttention::apply(q, k, v, choice_of(mask, visible, dropout));
}

at::Tensor short_attention(const at::Tensor& joined, std::int64_t num_heads, const at::Tensor& mask, Visible visible,
                           const AttentionDropout& dropout) {
  const QueriesKeysValues heads = heads_of_joined(joined, num_heads);
  core::ensure(suits_short_attention(heads.q, heads.k, heads.v, mask),
               "short_attention was given what it doesn't take");
  return JoinedShortAttention::apply(joined, num_heads, choice_of(mask, visible, dropout));
}

}  // namespace trainctl::kernels
