// First values and learning rates of muP.
#pragma once

#include "model/model.h"

namespace trainctl::model {

/// Changes the first values and the learning rates of the model's parameters to those of muP, as table 3 of
/// https://arxiv.org/abs/2203.03466 has them for Adam. The ratio is the width over config.mup's base width.
/// Matrices between hidden features have their standard deviation / √ratio, and their learning rate / ratio. The
/// output's weight has both / ratio. Everything else is as in the network of the base width.
/// Where the token embeddings are the output's weight too, the weight and bias of the norm before it take the output's
/// place. Throws Error if there is no such norm. The model is not materialised yet, and has no adapters.
void parametrize(Model& model, const ModelConfig& config, const InputSpec& input);

}  // namespace trainctl::model
