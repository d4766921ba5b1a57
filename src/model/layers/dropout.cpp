#include "model/layers/dropout.h"

#include <ATen/ops/dropout.h>

#include "core/error.h"
#include "kernels/dropout.h"
#include "kernels/portable.h"

namespace trainctl::model {

at::Tensor Dropout::compute(const at::Tensor& input) {
  if (probability_ == 0) return input;
  // Kept in evaluation too, since the exported graph may be trained.
  if (kernels::PortableOperators::are_wanted()) return at::dropout(input, probability_, is_training());
  if (!is_training()) return input;
  if (token_ranks_ != nullptr) {
    const std::int64_t length = input.size(1) * input.size(2);
    return kernels::dropout(
        input, probability_,
        {.length = length, .distance = token_ranks_->size * length, .first = token_ranks_->rank * length});
  }
  if (context_ranks_ != nullptr) return kernels::dropout(input, probability_, context_ranks_->runs_of(input));
  return kernels::dropout(input, probability_);
}

void Dropout::share_sequences(const ContextRanksPtr& ranks) {
  if (token_ranks_ != nullptr && probability_ > 0)
    throw core::Error("dropout takes the tokens of distributed.context or those of distributed.sequence_parallel")
        .hint("model.dropout: 0, or distributed.sequence_parallel: false");
  context_ranks_ = ranks;
}

at::Tensor Dropout::forward_part(const at::Tensor& part, std::int64_t features, const TensorRanksPtr& ranks) {
  if (ranks == nullptr) return forward(part);
  if (probability_ == 0 || !is_training()) return part;
  core::ensure(context_ranks_ == nullptr, "dropout takes a range of features, or of tokens");
  const FeatureRange range = range_of(features, *ranks);
  return kernels::dropout(part, probability_, {.length = range.size, .distance = features, .first = range.begin});
}

}  // namespace trainctl::model
