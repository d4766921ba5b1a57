// A ViT's weights under timm's names (which are ours) and under those of transformers' ViTForImageClassification, where
// query, key and value are apart.
#pragma once

#include "checkpoint/safetensors.h"

namespace trainctl::pretrained {

checkpoint::TensorMap vit_to_transformers(const checkpoint::TensorMap& tensors);

/// Renames the tensors of a ViT of transformers 4 or 5, whose names differ, and joins query, key and value. A missing
/// prefix `vit.` is added. Tensors with other names stay as they are.
checkpoint::TensorMap vit_from_transformers(const checkpoint::TensorMap& tensors);

}  // namespace trainctl::pretrained
