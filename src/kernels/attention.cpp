#include "kernels/attention.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

#include "core/error.h"
#include "kernels/attention_passes.h"
#include "kernels/portable.h"
#include "kernels/vector_math.h"
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

struct ShortAttention final : torch::autograd::Function<ShortAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::optional<at::Tensor>& mask, bool causal, const WeightDrops& drops) {
    static const auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow("trainctl::short_attention", "").typed<decltype(run_forward)>();
    const std::vector<std::int64_t> place = place_of(drops);
    auto [output, log_sums] = op.call(q, k, v, mask, causal, drops.probability, place);
    context->save_for_backward({q, k, v, mask.value_or(at::Tensor()), output, log_sums});
    context->saved_data["causal"] = causal;
    context->saved_data["dropout"] = drops.probability;
    context->saved_data["place"] = place;
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const variable_list saved = context->get_saved_variables();
    RECORD_FUNCTION("trainctl::short_attention_backward", std::vector<c10::IValue>({saved[0], saved[1], saved[2]}));
    const at::Tensor& given = output_gradients[0];
    const at::Tensor gradient = given.stride(3) == 1 ? given : given.contiguous();
    const AttentionBackwardOutputs gradients{empty_heads(saved[0]), empty_heads(saved[1]), empty_heads(saved[2])};
    const variable_list results{gradients.q, gradients.k, gradients.v, at::Tensor(), at::Tensor(), at::Tensor()};
    if (runtime::is_fake(saved[0])) return results;
    const AttentionProblem problem(
        saved[0], saved[1], saved[3], context->saved_data["causal"].toBool() ? Visible::up_to_itself : Visible::all,
        drops_at(context->saved_data["dropout"].toDouble(), context->saved_data["place"].toIntVector()));
    attention_backward(
        problem,
        {.q = saved[0], .k = saved[1], .v = saved[2], .output = saved[4], .log_sums = saved[5], .gradient = gradient},
        gradients);
    return results;
  }
};

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

at::Tensor short_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                           Visible visible, const AttentionDropout& dropout) {
  core::ensure(suits_short_attention(q, k, v, mask), "short_attention was given what it doesn't take");
  core::ensure(dropout.probability >= 0 && dropout.probability < 1, "short_attention takes a probability in [0, 1)");
  WeightDrops drops{.probability = dropout.probability, .heads = dropout.heads};
  if (dropout.probability > 0) drops.draw = next_draw();
  return ShortAttention::apply(q, k, v, mask.defined() ? std::optional(mask) : std::nullopt,
                               visible == Visible::up_to_itself, drops);
}

}  // namespace trainctl::kernels
