#include <map>

#include "pretrained/hugging_face_config.h"

namespace trainctl::pretrained {
namespace {

/// Returns our names of those keys of config.json that have another name here.
const std::map<std::string, std::string>& our_names() {
  static const std::map<std::string, std::string> names = {
      {"model_type", "kind"},
      {"num_hidden_layers", "num_layers"},
      {"n_layer", "num_layers"},
      {"num_attention_heads", "num_heads"},
      {"n_head", "num_heads"},
      {"n_embd", "hidden_size"},
      {"n_inner", "intermediate_size"},
      {"n_positions", "max_position_embeddings"},
      {"layer_norm_eps", "layer_norm_epsilon"},
      {"rms_norm_eps", "rms_norm_epsilon"},
      {"head_dim", "head_size"},
      {"tie_word_embeddings", "tie_embeddings"},
      {"rope_type", "kind"},
  };
  return names;
}

/// Returns the config with `rope_parameters`. In its place transformers 4 had `rope_theta` and `rope_scaling`, with
/// `type` for `rope_type`.
nlohmann::json with_rope_parameters(nlohmann::json config) {
  nlohmann::json rope = nlohmann::json::object();
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (config.contains(key) && config[key].is_object()) rope.update(config[key]);
  if (!rope.contains("rope_type")) rope["rope_type"] = rope.value("type", nlohmann::json("default"));
  if (config.contains("rope_theta") && !rope.contains("rope_theta")) rope["rope_theta"] = config["rope_theta"];
  config["rope_parameters"] = std::move(rope);
  return config;
}

/// Returns whether two values mean the same: `gelu_new` and `gelu_pytorch_tanh` are one function.
bool agree(const nlohmann::json& theirs, const nlohmann::json& ours) {
  return theirs == ours || (theirs == "gelu_pytorch_tanh" && ours == "gelu_new");
}

void compare(const nlohmann::json& theirs, const nlohmann::ordered_json& ours, const std::string& section,
             std::vector<std::string>& found) {
  for (const auto& [key, value] : ours.items()) {
    const auto other = theirs.find(key);
    if (other == theirs.end() || other->is_null()) continue;
    if (value.is_object()) {
      if (other->is_object()) compare(*other, value, "model.rope_scaling.", found);
      continue;
    }
    if (agree(*other, nlohmann::json(value))) continue;
    const auto name = our_names().find(key);
    const std::string path =
        key == "rope_theta" ? "model.rope_theta" : section + (name == our_names().end() ? key : name->second);
    found.push_back(key + " is " + other->dump() + " in config.json and " + value.dump() + " here (" + path + ")");
  }
}

}  // namespace

std::vector<std::string> differences(const nlohmann::json& config_json, const model::NetworkConfig& network,
                                     const ModelInfo& facts) {
  const nlohmann::ordered_json ours = structure_of(network, facts);
  if (ours.empty() || !config_json.is_object()) return {};
  std::vector<std::string> found;
  if (const auto type = config_json.find("model_type"); type != config_json.end() && *type != ours["model_type"])
    return {"model_type is " + type->dump() + " in config.json and " + ours["model_type"].dump() +
            " here (model.kind)"};
  compare(ours.contains("rope_parameters") ? with_rope_parameters(config_json) : config_json, ours, "model.", found);
  return found;
}

}  // namespace trainctl::pretrained
