#include "model/tensor_ranks.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <utility>

#include "core/error.h"
#include "runtime/span.h"

namespace trainctl::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kSpan = "sum over tensor ranks";

at::Tensor summed(const at::Tensor& part, const TensorRanks& ranks) {
  const runtime::Span span(kSpan);
  at::Tensor sum = part.clone(at::MemoryFormat::Contiguous);
  ranks.sum(sum);
  return sum;
}

/// A graph's node keeps the ranks.
struct Kept final : torch::CustomClassHolder {
  explicit Kept(TensorRanksPtr kept) : ranks(std::move(kept)) {}
  TensorRanksPtr ranks;
};

void keep_ranks(AutogradContext* context, const TensorRanksPtr& ranks) {
  context->saved_data["ranks"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(ranks));
}

const TensorRanks& ranks_of(AutogradContext* context) {
  return *static_cast<const Kept&>(*context->saved_data["ranks"].toCapsule()).ranks;
}

/// [B, T / size, D] of each rank to [B, T, D].
at::Tensor gathered(const at::Tensor& own, const TensorRanks& ranks) {
  const runtime::Span span("gather tokens");
  at::Tensor all = at::empty({ranks.size, own.size(0), own.size(1), own.size(2)}, own.options());
  ranks.gather(all, own.contiguous());
  return all.transpose(0, 1).reshape({own.size(0), -1, own.size(2)});
}

/// [B, T, D] to this rank's [B, T / size, D] of the sum over the ranks.
at::Tensor summed_and_scattered(const at::Tensor& part, const TensorRanks& ranks) {
  const runtime::Span span("sum and scatter tokens");
  at::Tensor own = at::empty({part.size(0), part.size(1) / ranks.size, part.size(2)}, part.options());
  ranks.sum_and_scatter(own, part.unflatten(1, {ranks.size, -1}).transpose(0, 1).contiguous());
  return own;
}

at::Tensor sliced(const at::Tensor& value, const TensorRanks& ranks) {
  const std::int64_t length = value.size(1) / ranks.size;
  return value.narrow(1, ranks.rank * length, length).contiguous();
}

/// What ranks give for the same token: parts of a sum, or the same value.
enum class Gradient { summed, same };

template <Gradient gradient>
struct GatherTokens final : torch::autograd::Function<GatherTokens<gradient>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& own, const TensorRanksPtr& ranks) {
    keep_ranks(context, ranks);
    return gathered(own, *ranks);
  }
  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const TensorRanks& ranks = ranks_of(context);
    return {gradient == Gradient::summed ? summed_and_scattered(output_gradients[0], ranks)
                                         : sliced(output_gradients[0], ranks),
            at::Tensor()};
  }
};

template <Gradient gradient>
struct ScatterTokens final : torch::autograd::Function<ScatterTokens<gradient>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& value, const TensorRanksPtr& ranks) {
    keep_ranks(context, ranks);
    return gradient == Gradient::summed ? summed_and_scattered(value, *ranks) : sliced(value, *ranks);
  }
  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    return {gathered(output_gradients[0], ranks_of(context)), at::Tensor()};
  }
};

struct UseInParts final : torch::autograd::Function<UseInParts> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& value, const TensorRanksPtr& ranks) {
    keep_ranks(context, ranks);
    return value.view_as(value);
  }
  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    return {summed(output_gradients[0], ranks_of(context)), at::Tensor()};
  }
};

struct SumOfParts final : torch::autograd::Function<SumOfParts> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& part, const TensorRanksPtr& ranks) {
    return summed(part, *ranks);
  }
  static variable_list backward(AutogradContext*, const variable_list& output_gradients) {
    return {output_gradients[0], at::Tensor()};
  }
};

}  // namespace

FeatureRange range_of(std::int64_t features, const TensorRanks& ranks) {
  const std::int64_t begin = features * ranks.rank / ranks.size;
  return {.begin = begin, .size = features * (ranks.rank + 1) / ranks.size - begin};
}

at::Tensor use_in_parts(const at::Tensor& value, const TensorRanksPtr& ranks) {
  return ranks == nullptr ? value : UseInParts::apply(value, ranks);
}

at::Tensor sum_of_parts(const at::Tensor& part, const TensorRanksPtr& ranks) {
  return ranks == nullptr ? part : SumOfParts::apply(part, ranks);
}

at::Tensor enter_split_layer(const at::Tensor& value, const TensorRanksPtr& ranks) {
  if (ranks == nullptr || !ranks->shares_tokens) return use_in_parts(value, ranks);
  return GatherTokens<Gradient::summed>::apply(value, ranks);
}

at::Tensor leave_split_layer(const at::Tensor& part, const TensorRanksPtr& ranks) {
  if (ranks == nullptr || !ranks->shares_tokens) return sum_of_parts(part, ranks);
  return ScatterTokens<Gradient::summed>::apply(part, ranks);
}

at::Tensor own_tokens(const at::Tensor& value, const TensorRanksPtr& ranks) {
  if (value.size(1) % ranks->size != 0)
    throw core::Error("sequences of " + std::to_string(value.size(1)) + " tokens can't be shared by the " +
                      std::to_string(ranks->size) + " ranks of distributed.tensor")
        .hint("distributed.sequence_parallel: false, or sequences of a multiple of " + std::to_string(ranks->size));
  return ScatterTokens<Gradient::same>::apply(value, ranks);
}

at::Tensor all_tokens(const at::Tensor& own, const TensorRanksPtr& ranks) {
  return GatherTokens<Gradient::same>::apply(own, ranks);
}

}  // namespace trainctl::model
