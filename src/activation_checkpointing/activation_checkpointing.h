// Lays recomputation, offloading and compression of activations over a model, through its blocks.
#pragma once

#include <c10/core/Device.h>

#include "activation_checkpointing/config.h"
#include "model/model.h"

namespace trainctl::activation_checkpointing {

/// From now on, forward passes that record gradients keep what the config says. Gradients stay the same to the bit
/// unless values are compressed. Recomputed blocks run through the model's BlockRunner, with the randomness and the
/// autocast of their first time, on the thread of the backward pass; their gradients become ready once each, as without
/// recomputation. Errors: patterns that name no block, a k that no block is the multiple of.
///
/// Before the process's first backward pass: it puts an engine of our own under autograd.
void checkpoint_activations(model::Model& model, const ActivationCheckpointingConfig& config, c10::Device device);

}  // namespace trainctl::activation_checkpointing
