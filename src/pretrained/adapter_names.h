// The tensors of adapters by their names here and by those of peft's files, without `base_model.model.`.
#pragma once

#include <cstdint>

#include "checkpoint/safetensors.h"
#include "model/config.h"

namespace trainctl::pretrained {

/// Adapters of which all have one rank.
struct NamedAdapters {
  checkpoint::TensorMap tensors;  // "….lora_A.weight" [rank, in] and "….lora_B.weight" [out, rank]
  std::int64_t rank = 0;
};

/// Returns the adapters as a network of transformers 5 has them. Query, key and value of a ViT get the joined matrix's
/// A, and each its rows of B. If transformers joins matrices that are apart here, the joined A has the rows of all, and
/// B a block for each. Then the rank is larger, and the other adapters get zeros.
/// `weights` are the network's other tensors, which tell the class of its family.
NamedAdapters adapters_to_transformers(const NamedAdapters& adapters, const checkpoint::TensorMap& weights,
                                       const model::NetworkConfig& network);

/// Returns the adapters of a file by the names here; a later as_named_here() adds missing prefixes. `rank` is that of
/// the model. Adapters of matrices that are one matrix here are joined. Throws Error if they need a larger rank.
checkpoint::TensorMap adapters_from_transformers(const checkpoint::TensorMap& adapters,
                                                 const model::NetworkConfig& network, std::int64_t rank);

/// Returns tensors that are no adapters by the names that transformers 5 gives them while they are used.
checkpoint::TensorMap weights_in_use(const checkpoint::TensorMap& tensors, const model::NetworkConfig& network);

}  // namespace trainctl::pretrained
