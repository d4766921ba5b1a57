// Frequencies of rotary position embeddings, with the published ways to reach beyond the pretraining's length.
// As transformers' modeling_rope_utils.py computes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

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

/// Frequencies on a device. It keeps the last few, since a copy to a GPU waits for the GPU, and a graph can't record
/// it.
class RopeFrequencies {
 public:
  /// Returns float [d/2].
  at::Tensor on(c10::Device device, const std::vector<double>& values);

 private:
  static constexpr std::size_t kMost = 4;  // of two sets of layers, each with a set beyond the pretraining's length
  struct Kept {
    std::vector<double> values;
    at::Tensor tensor;
  };
  std::vector<Kept> kept_;
};

/// Returns a number that changes with the frequencies of all positions of a sequence; 0 for most scalings. As in
/// transformers, `longrope` has another set beyond the pretraining's length, and `dynamic` one for each length.
std::int64_t rope_version(const LlamaConfig& config, std::int64_t length);

/// `positions` int64 [T] or [B, T].
RopeTables rope_tables(const LlamaConfig& config, const at::Tensor& positions, const SequenceLengths& lengths,
                       RopeFrequencies& frequencies);

}  // namespace trainctl::model
