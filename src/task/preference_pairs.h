// Log-probabilities of the answers of pairs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "dataset/dataset.h"
#include "model/model.h"

namespace trainctl::task {

/// Sums over the learned tokens of each conversation. Row b's documents 2p and 2p + 1 are [b, p, 0], the preferred one,
/// and [b, p, 1].
struct AnswerSums {
  at::Tensor log_probs;  // [B, P, 2], differentiable
  at::Tensor tokens;     // [B, P, 2], of the same type
};

/// Runs the model, or the blocks of `input`, to the end. chunk_size: rows of logits at once; 0 chooses.
AnswerSums answer_sums(model::Model& model, const model::ModelInput& input, const dataset::Batch& batch,
                       std::int64_t chunk_size);

/// Returns the number of pairs of a batch on the host.
std::int64_t num_pairs(const dataset::Batch& batch);

/// Returns which places of AnswerSums have a pair: bool [B, P].
at::Tensor have_pairs(const AnswerSums& sums);

}  // namespace trainctl::task
