// Batch normalisation by the batch of all ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/model.h"

namespace trainctl::model {

struct SyncBatchNormResult {
  at::Tensor output;
  at::Tensor mean;         // [C], over all ranks
  at::Tensor variance;     // [C], unbiased
  std::int64_t count = 0;  // values per channel, on all ranks
};

/// input [B, C, ...], weight and bias [C]. As batch_norm of the ranks' inputs in one batch, forward and backward; the
/// gradients of weight and bias are this rank's share of the sum. Two exchanges of 2 C numbers, one each way.
SyncBatchNormResult sync_batch_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                    double eps, const BatchRanks& ranks);

}  // namespace trainctl::model
