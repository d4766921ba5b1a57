// The networks of transformers that `model: {kind: vit}` can be, and their config.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "model/config.h"
#include "pretrained/model_info.h"

namespace trainctl::pretrained {

enum class VitFamily { vit, deit, clip_vision_model };

/// Returns the family that the config's features belong to. Sizes alone are ViT's.
VitFamily vit_family(const model::VitConfig& config);
/// Returns the family that config.json names by its model_type, otherwise that of the config.
VitFamily vit_family(std::string_view model_type, const model::VitConfig& config);

/// Returns the keys of config.json that weights depend on.
nlohmann::ordered_json vit_structure(const model::VitConfig& config, const ModelInfo& facts, VitFamily family);

/// Returns the other keys of config.json. What transformers' class of the family can't compute is an Error.
nlohmann::ordered_json vit_settings(const model::VitConfig& config);

}  // namespace trainctl::pretrained
