// Zeroes elements with the given probability while training and scales the rest to keep the mean; which ones is a
// function of the sample (kernels/dropout.h).
#pragma once

#include "model/context_ranks.h"
#include "model/layer.h"

namespace trainctl::model {

class Dropout final : public UnaryLayer {
 public:
  explicit Dropout(double probability) : probability_(probability) {}
  at::Tensor compute(const at::Tensor& input) override;  // [B, ...]
  /// From now on inputs are [B, T of this rank, ...]. Throws Error if share_tokens() was called.
  void share_sequences(const ContextRanksPtr& ranks);
  /// From now on inputs are [B, T of this rank, D], if the ranks share tokens.
  void share_tokens(const TensorRanksPtr& ranks) {
    if (ranks->shares_tokens) token_ranks_ = ranks;
  }
  /// Does the same for this rank's range of `features`, [B, ..., range]. Without ranks it has all.
  at::Tensor forward_part(const at::Tensor& part, std::int64_t features, const TensorRanksPtr& ranks);

 private:
  double probability_;
  ContextRanksPtr context_ranks_;
  TensorRanksPtr token_ranks_;
};

}  // namespace trainctl::model
