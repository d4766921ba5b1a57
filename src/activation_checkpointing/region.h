// A stretch of a forward pass whose inner values are computed again when the backward pass first asks for one.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "activation_checkpointing/packed_tensor.h"
#include "model/model.h"

namespace trainctl::activation_checkpointing {

enum class Keep { input, costly_outputs };

struct RegionOptions {
  Keep keep = Keep::input;
  std::shared_ptr<TensorPacker> packer{};  // of what is kept
};

/// Returns passage(input, context). Autograd keeps the graph of this run, but none of the tensors that the graph saves.
/// A second run computes them: it begins when the backward pass needs the first, and ends with the last. The graph, and
/// the time at which each gradient is ready, are those of the first run. `passage` must outlive the graph.
at::Tensor run_recomputed(const model::Passage& passage, const at::Tensor& input, const model::SequenceContext& context,
                          const RegionOptions& options);

}  // namespace trainctl::activation_checkpointing
