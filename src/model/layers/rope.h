// Frequencies of rotary position embeddings, with the published ways to reach beyond the pretraining's length.
// As transformers' modeling_rope_utils.py computes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/config.h"

namespace trainctl::model {

struct RopeTables {
  at::Tensor cosine;  // float, positions' shape + [d/2]
  at::Tensor sine;
};

/// `positions` int64 [T] or [B, T]; `longest` is one more than the largest of them.
RopeTables rope_tables(const LlamaConfig& config, const at::Tensor& positions, std::int64_t longest);

}  // namespace trainctl::model
