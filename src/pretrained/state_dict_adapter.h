// The names of weights here and in published files. bert, gpt2 and llama are called as in transformers, vit and resnet
// as in timm (and torchvision).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "model/config.h"
#include "model/model.h"

namespace trainctl::pretrained {

/// Returns the tensors of a published file under the names of `model`. A published name may lack the prefix `bert.`,
/// `transformer.` or `model.`. LayerNorm's gamma and beta become weight and bias. Separate query, key and value of
/// transformers' ViT are joined. Lists of layers take names that lack `layers` and `branches.N`, and matrices for
/// convolutions of one pixel: timm's modules have such.
checkpoint::TensorMap as_named_here(const checkpoint::TensorMap& published, const model::NetworkConfig& network,
                                    model::Model& model);

/// Other names that published files give the same tensor, since it is shared: the output layer for the embeddings.
std::vector<std::string> shared_with(std::string_view name);

/// Whether the tensor is of an output head, which fine-tuning begins afresh.
bool is_of_head(std::string_view name);

/// Whether published files have such tensors although they are no weights (positions, masks, frequencies).
bool is_known_extra(std::string_view name);

}  // namespace trainctl::pretrained
