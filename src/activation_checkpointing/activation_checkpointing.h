// Lays recomputation, offloading and compression of activations over a model, through its blocks.
#pragma once

#include <c10/core/Device.h>

#include "activation_checkpointing/config.h"
#include "model/model.h"

namespace trainctl::activation_checkpointing {

/// Applies the config to the model's forward passes that record gradients, from now on. Gradients stay the same to the
/// bit unless values are compressed. A recomputed block runs on the thread of the backward pass, through the model's
/// BlockRunner. It has the randomness and the autocast of its first run. Gradients become ready once each, as without
/// recomputation. Throws an Error if a pattern names no block, or if `n` is over the number of blocks before the last.
///
/// Call it before the process's first backward pass: it replaces autograd's engine.
void checkpoint_activations(model::Model& model, const ActivationCheckpointingConfig& config, c10::Device device);

}  // namespace trainctl::activation_checkpointing
