// Rank, scale and layers of adapters from the adapter_config.json of Hugging Face's peft.
#pragma once

#include "config/node.h"
#include "config/problems.h"

namespace trainctl::experiment {

/// Adds to `written` the keys of `model.lora` that it leaves out and that DIR/adapter_config.json says, where
/// model.lora.init_from is DIR. Names of layers become those here, by model.kind. A feature that adapters here lack is
/// a problem at its line. Call after adopt_published_config(), which gives model.kind.
void adopt_published_adapter(config::Node& written, config::Problems& problems);

}  // namespace trainctl::experiment
