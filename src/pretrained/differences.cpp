#include <map>

#include "model/llama_json.h"
#include "model/transformers_keys.h"
#include "pretrained/hugging_face_config.h"

namespace trainctl::pretrained {
namespace {

/// Returns our names of those keys of config.json that have another name here.
const std::map<std::string, std::string>& our_names() {
  static const std::map<std::string, std::string> names = {
      {"model_type", "kind"},
      {"dim", "hidden_size"},
      {"hidden_dim", "intermediate_size"},
      {"n_layers", "num_layers"},
      {"n_heads", "num_heads"},
      {"pad_token_id", "position_offset"},  // which follows from it in RoBERTa
      {"num_hidden_layers", "num_layers"},
      {"n_layer", "num_layers"},
      {"num_attention_heads", "num_heads"},
      {"n_head", "num_heads"},
      {"n_embd", "hidden_size"},
      {"d_model", "hidden_size"},
      {"d_kv", "head_size"},
      {"d_ff", "intermediate_size"},
      {"n_inner", "intermediate_size"},
      {"n_positions", "max_position_embeddings"},
      {"layer_norm_eps", "layer_norm_epsilon"},
      {"rms_norm_eps", "rms_norm_epsilon"},
      {"head_dim", "head_size"},
      {"tie_word_embeddings", "tie_embeddings"},
      {"rope_type", "kind"},
      {"hidden_act", "activation"},
      {"hidden_activation", "activation"},
      {"no_rope_layers", "position_types"},
      {"rope_local_base_freq", "rope_local_theta"},
  };
  return names;
}

/// Returns whether two values mean the same: `gelu_new` and `gelu_pytorch_tanh` are one function.
bool agree(const nlohmann::json& theirs, const nlohmann::json& ours) {
  return theirs == ours || (theirs == "gelu_pytorch_tanh" && ours == "gelu_new");
}

bool has_key(const model::NetworkConfig& network, const std::string& key) {
  return network.visit([&]<class Network>(const Network&) {
    const auto is_it = [&](const auto& one) {
      if constexpr (requires { one.name; }) return one.name == key;
      return false;
    };
    if constexpr (!config::ForPlugIns<Network>)
      return Network::fields().apply([&](const auto&... fields) { return (is_it(fields) || ...); });
    return false;
  });
}

/// Keys that are null, or left out, agree with anything. Of a complete config, null is a value.
enum class Null { agrees, is_value };

/// A mapping of the experiment, whose keys are compared.
struct Section {
  model::NetworkConfig network;
  std::string name = "model.";
};

/// Returns the place of the key in the experiment, or that no key of the kind changes the feature.
std::string place_of(const std::string& key, const Section& section) {
  if (key == "rope_theta") return "model.rope_theta";
  const auto found = our_names().find(key);
  const std::string name = found == our_names().end() ? key : found->second;
  if (section.name != "model." || has_key(section.network, name)) return section.name + name;
  return "no key of model.kind " + std::string(section.network.kind()) + " changes it";
}

void compare(const nlohmann::json& theirs, const nlohmann::ordered_json& ours, const Section& section, Null null,
             std::vector<std::string>& found) {
  for (const auto& [own, value] : ours.items()) {
    const std::string key = model::written_name(theirs, own);
    const auto other = theirs.find(key);
    if (other == theirs.end() || (other->is_null() && null == Null::agrees)) continue;
    if (value.is_object()) {
      if (other->is_object())
        compare(*other, value, {.network = section.network, .name = "model.rope_scaling."}, Null::agrees, found);
      continue;
    }
    if (agree(*other, nlohmann::json(value))) continue;
    found.push_back(key + " is " + other->dump() + " in config.json and " + value.dump() + " here (" +
                    place_of(key, section) + ")");
  }
}

std::string refusal(const model::RefusedKey& refused) {
  return refused.key + " in config.json: " + refused.reason;
}

std::vector<std::string> differences_as(const model::LlamaFamily& family, const nlohmann::json& config_json,
                                        const model::LlamaConfig& config, const ModelInfo& facts) {
  std::vector<std::string> found;
  for (const std::string& key : model::obstacles(family, config))
    found.push_back("model_type is \"" + std::string(family.type) + "\" in config.json, with another " + key +
                    " than here");
  if (!found.empty()) return found;
  const nlohmann::json theirs = model::complete_llama_json(config_json, family);
  for (const model::RefusedKey& refused : model::refused_keys(config_json, family)) found.push_back(refusal(refused));
  for (const model::RefusedKey& refused : model::refused_fixed_keys(config_json)) found.push_back(refusal(refused));
  nlohmann::json ours = model::complete_llama_json(llama_structure(config, facts, family), family);
  ours.erase("pad_token_id");  // it changes training alone
  compare(theirs, ours, {.network = config}, Null::is_value, found);
  return found;
}

std::string another_type(const nlohmann::json& type, std::string_view ours) {
  return "model_type is " + type.dump() + " in config.json and \"" + std::string(ours) + "\" here (model.kind)";
}

std::vector<std::string> differences_of(const nlohmann::json& config_json, const model::LlamaConfig& config,
                                        const ModelInfo& facts) {
  const model::LlamaFamily* const family = model::llama_family_of(config_json);
  if (family == nullptr) return {another_type(config_json["model_type"], model::LlamaConfig::kind)};
  try {
    return differences_as(*family, config_json, config, facts);
  } catch (const nlohmann::json::exception& error) {
    return {"a key of config.json has a value of another type than transformers writes: " + std::string(error.what())};
  }
}

template <class Network>
std::vector<std::string> differences_of(const nlohmann::json& config_json, const Network& network,
                                        const ModelInfo& facts) {
  const auto type = config_json.find("model_type");
  const bool has_type = type != config_json.end() && type->is_string();
  const nlohmann::ordered_json ours = structure_of(network, facts, has_type ? type->template get<std::string>() : "");
  if (ours.empty()) return {};
  if (type != config_json.end() && *type != ours["model_type"])
    return {another_type(*type, ours["model_type"].template get<std::string>())};
  std::vector<std::string> found;
  compare(config_json, ours, {.network = network}, Null::agrees, found);
  for (const model::RefusedKey& refused : model::refused_fixed_keys(config_json))
    if (!ours.contains(refused.key)) found.push_back(refusal(refused));
  return found;
}

/// transformers 5 writes tie_word_embeddings: true into every file of T5.
std::vector<std::string> differences_of(const nlohmann::json& config_json, const model::T5Config& config,
                                        const ModelInfo& facts) {
  nlohmann::json theirs = config_json;
  if (const auto scales = theirs.find("scale_decoder_outputs"); scales != theirs.end())
    theirs["tie_word_embeddings"] = *scales;
  return differences_of<model::T5Config>(theirs, config, facts);
}

}  // namespace

std::vector<std::string> differences(const nlohmann::json& config_json, const model::NetworkConfig& network,
                                     const ModelInfo& facts) {
  if (!config_json.is_object()) return {};
  // CLIP has two towers, of which the image tower is a network here.
  if (config_json.value("model_type", nlohmann::json()) == "clip") {
    auto found = differences(config_json.value("vision_config", nlohmann::json()), network, facts);
    for (const model::RefusedKey& refused : model::refused_fixed_keys(config_json)) found.push_back(refusal(refused));
    return found;
  }
  return network.visit([&](const auto& config) { return differences_of(config_json, config, facts); });
}

}  // namespace trainctl::pretrained
