// Sequences of different lengths without their padding, as fused recurrent kernels want them.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/sequence.h"

namespace trainctl::model {

/// Token number t of every sequence, longest first, then number t + 1 of those that have one, and so on.
struct PackedSequences {
  at::Tensor places;       // int64 [N]: where each token stands in [B T]
  at::Tensor batch_sizes;  // int64 [longest] on the CPU: how many sequences have a token t
  std::int64_t num_sequences() const { return batch_sizes.data_ptr<std::int64_t>()[0]; }
};

/// Each run of tokens that no padding and no document's start interrupts is a sequence. Reads the context's masks on
/// the CPU (a synchronisation on other devices). `like` is [B, T, ...].
PackedSequences pack(const SequenceContext& context, const at::Tensor& like);

}  // namespace trainctl::model
