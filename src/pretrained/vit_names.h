// A ViT's weights under timm's names (which are ours) and under those of transformers' ViTForImageClassification, DeiT
// and CLIPVisionModel, where query, key and value are apart.
#pragma once

#include "checkpoint/safetensors.h"
#include "model/config.h"

namespace trainctl::pretrained {

/// Returns the tensors under the names of transformers' ViT, or of DeiT for a config with a distillation token.
checkpoint::TensorMap vit_to_transformers(const model::VitConfig& config, const checkpoint::TensorMap& tensors);

/// Renames the tensors of a ViT, DeiT or CLIP image tower of transformers 4 or 5, whose names differ, and joins query,
/// key and value. A missing prefix, as `vit.`, is added. Tensors with other names stay as they are.
checkpoint::TensorMap vit_from_transformers(const checkpoint::TensorMap& tensors);

}  // namespace trainctl::pretrained
