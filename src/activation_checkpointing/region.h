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

/// passage(input, context), of which autograd keeps the graph but none of the tensors: those come from a second run,
/// which begins with the first tensor that the backward pass needs and ends with the last. The graph, and with it when
/// which gradient is ready, is the one of the first run. `passage` must outlive the graph.
at::Tensor run_recomputed(const model::Passage& passage, const at::Tensor& input, const model::SequenceContext& context,
                          const RegionOptions& options);

}  // namespace trainctl::activation_checkpointing
