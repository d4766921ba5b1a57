// Weights of the family of Phi-3, which transformers has in fewer matrices.
#pragma once

#include "checkpoint/safetensors.h"
#include "model/config.h"

namespace trainctl::pretrained {

/// Joins queries, keys and values as `qkv_proj`, and gate and up as `gate_up_proj`.
checkpoint::TensorMap with_fused_projections(const checkpoint::TensorMap& tensors);

/// Splits the matrices that with_fused_projections() joins, in the sizes of the config. A matrix of another size, and
/// every other tensor, stays.
checkpoint::TensorMap with_separate_projections(const checkpoint::TensorMap& tensors, const model::LlamaConfig& config);

}  // namespace trainctl::pretrained
