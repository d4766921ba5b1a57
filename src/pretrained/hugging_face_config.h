// A network as the config.json of Hugging Face's transformers (and of timm) describes it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/llama_families.h"
#include "pretrained/model_info.h"

namespace trainctl::pretrained {

/// The keys of config.json that decide what the network computes: model_type, sizes, epsilons, rotary positions.
/// Empty for networks that transformers doesn't have. A network that several types have is described as `model_type`.
nlohmann::ordered_json structure_of(const model::NetworkConfig& network, const ModelInfo& facts,
                                    std::string_view model_type = {});

/// Returns the family of transformers that has all features of the network. Throws Error, with the keys that the
/// closest family lacks, if there is none.
const model::LlamaFamily& published_family(const model::LlamaConfig& config);

/// structure_of() of a network that the family has.
nlohmann::ordered_json llama_structure(const model::LlamaConfig& config, const ModelInfo& facts,
                                       const model::LlamaFamily& family);

/// The whole config.json of a network that transformers loads. An Error, saying what it can't express, for others.
nlohmann::ordered_json hugging_face_config(const model::NetworkConfig& network, const ModelInfo& facts);

constexpr const char* kPreprocessorConfig = "preprocessor_config.json";

/// The preprocessor_config.json of a network for images that transformers loads; else null.
nlohmann::ordered_json preprocessor_config(const model::NetworkConfig& network, const ModelInfo& facts);

/// The config.json that timm reads beside weights. An Error for networks that it doesn't have.
nlohmann::ordered_json timm_config(const model::NetworkConfig& network, const ModelInfo& facts);

/// Where a config.json describes another network: "hidden_size is 384 in config.json and 768 here (model.hidden_size)".
/// Keys that it leaves out are taken to agree.
std::vector<std::string> differences(const nlohmann::json& config_json, const model::NetworkConfig& network,
                                     const ModelInfo& facts);

}  // namespace trainctl::pretrained
