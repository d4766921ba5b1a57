// Low-rank adapters on a model's layers, chosen by name (https://arxiv.org/abs/2106.09685).
#pragma once

#include <string_view>

#include "model/config.h"
#include "model/model.h"

namespace trainctl::model {

/// Freezes the model but for what `modules_to_save` names, and puts adapters on the target layers. Before
/// materialize(). A name that matches nothing is an Error.
void add_adapters(Model& model, const LoraConfig& config);

/// Adds every adapter to its layer's matrix and removes it: what is left has the parameters of the model without them.
void merge_adapters(Model& model);

/// Whether a parameter of this name is an adapter's ("….lora_A.weight", as in peft's files): weights to start from
/// lack it.
bool is_adapter(std::string_view parameter_name);

}  // namespace trainctl::model
