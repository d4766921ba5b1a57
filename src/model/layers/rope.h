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

/// The tokens of each sequence, by which some scalings choose their frequencies.
struct SequenceLengths {
  std::int64_t longest = 0;  // at least as long as every sequence
  at::Tensor by_token{};     // int64 [B, T], of the sequence that a token is in; undefined: all are `longest`
};

/// Returns a number that changes with the frequencies of all positions of a sequence; 0 for most scalings. As in
/// transformers, `longrope` has another set beyond the pretraining's length, and `dynamic` one for each length.
std::int64_t rope_version(const LlamaConfig& config, std::int64_t length);

/// `positions` int64 [T] or [B, T].
RopeTables rope_tables(const LlamaConfig& config, const at::Tensor& positions, const SequenceLengths& lengths);

}  // namespace trainctl::model
