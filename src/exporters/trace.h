// A network as a TorchScript module whose batch and sequence are free.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "exporters/signature.h"
#include "model/model.h"

namespace trainctl::exporters {

/// Parameters and buffers have the checkpoint's names and share the model's memory; `forward` takes the signature's
/// inputs. The operators are LibTorch's own (kernels/portable.h), none in place; nodes' scopes name the model's blocks.
/// The model is on the CPU, in evaluation mode, without adapters.
torch::jit::Module trace(model::Model& model, const Signature& signature);

/// Lets the graph's normalisation and dropout follow the module's `training` flag, so that whoever loads it may train
/// it.
void follow_training_flag(torch::jit::Module& module);

}  // namespace trainctl::exporters
