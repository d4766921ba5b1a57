// A network's kind and sizes from the config.json beside published weights.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/node.h"
#include "config/problems.h"
#include "model/config.h"

namespace trainctl::experiment {

/// A section whose `kind` and sizes are those of a network.
struct NetworkSection {
  config::Node* node;  // null: it isn't written
  std::string path;    // "model", "distillation.teacher"
};

/// Adds to a network's section the keys that it leaves out and that DIR/config.json says, where its init_from is DIR.
/// Their origins are their lines in that file. Keys that it has stay as they are; if weights and keys differ, the
/// weights' loader says so. Adds a problem if it has no kind and no config.json gives one.
void adopt_published_config(const NetworkSection& section, config::Problems& problems);

/// Returns where timm's config.json describes another network: "num_heads is 3 by timm's architecture and 4 here
/// (model.num_heads)". Empty for a network of another kind, and for a config.json that isn't timm's.
std::vector<std::string> timm_differences(const nlohmann::json& config_json, const model::NetworkConfig& network);

/// Sets dataset.decoder_start_token_id, where the user leaves it to `auto`, to that of the config.json beside the
/// weights of an encoder-decoder, else of generation_config.json. Adds a problem if both have one and differ. Call
/// after adopt_published_config(), which gives model.kind.
void adopt_published_start_token(config::Node& written, config::Problems& problems);

}  // namespace trainctl::experiment
