// What a rank of each stage keeps in its device's memory at the peak of a step.
#pragma once

#include <vector>

#include "cluster/layer.h"

namespace trainctl::cluster {

/// Bytes of one rank, by what they are for.
struct MemoryUse {
  double states = 0;       // parameters, gradients, optimizer state
  double activations = 0;  // kept for the backward pass
  double workspace = 0;    // of the layer that computes, and logits
  double overhead = 0;     // buffers, fragmentation, the device's context

  double total() const { return states + activations + workspace + overhead; }
};

/// Returns the use of each rank of a pipeline.
std::vector<MemoryUse> memory_of_ranks(const Setup& setup);

/// Returns the use of the fullest rank.
MemoryUse peak_memory(const Setup& setup);

}  // namespace trainctl::cluster
