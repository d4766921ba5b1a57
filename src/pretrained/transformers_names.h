// Weights of networks whose names, or shapes, are others in transformers.
#pragma once

#include "checkpoint/safetensors.h"
#include "model/config.h"

namespace trainctl::pretrained {

/// Returns the network's tensors as transformers has them.
checkpoint::TensorMap renamed_to_transformers(const checkpoint::TensorMap& tensors,
                                              const model::NetworkConfig& network);

/// Returns the tensors of a published file by the names here. Tensors that already have these names stay as they are.
checkpoint::TensorMap renamed_from_transformers(const checkpoint::TensorMap& tensors,
                                                const model::NetworkConfig& network);

}  // namespace trainctl::pretrained
