// The names of a bert's weights in transformers, by family.
#pragma once

#include "checkpoint/safetensors.h"
#include "model/config.h"

namespace trainctl::pretrained {

/// Returns the tensors under the names that they have in the config's family.
checkpoint::TensorMap bert_to_transformers(const model::BertConfig& config, const checkpoint::TensorMap& tensors);

/// Returns the tensors of a file of any family under our names; tensors of other names stay as they are.
checkpoint::TensorMap bert_from_transformers(const model::BertConfig& config, const checkpoint::TensorMap& tensors);

}  // namespace trainctl::pretrained
