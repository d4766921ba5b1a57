#include "model/tensor_ranks.h"

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

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

struct UseInParts final : torch::autograd::Function<UseInParts> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& value, const TensorRanksPtr& ranks) {
    context->saved_data["ranks"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(ranks));
    return value.view_as(value);
  }
  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const auto& kept = static_cast<const Kept&>(*context->saved_data["ranks"].toCapsule());
    return {summed(output_gradients[0], *kept.ranks), at::Tensor()};
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

}  // namespace trainctl::model
