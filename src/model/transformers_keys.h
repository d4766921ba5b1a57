// Keys of transformers' config.json for which networks here compute one value alone, by family. A key of a family's
// configuration class is in one of three places: its value becomes a key of `model`, it is in this table, or it has no
// effect on what the network computes. model/llama_json.h has the keys of the families of llama. Without LibTorch.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::model {

/// A key of config.json that asks for what no network here does.
struct RefusedKey {
  std::string key;
  std::string reason;        // "expected …"
  std::string settled_by{};  // the key of the network that decides in its place if the user sets it; empty: none does
};

/// A key that must have one of some values where config.json has it.
struct FixedKey {
  std::string_view key;
  std::string_view expected;  // a JSON list
  std::string_view reason;
};

namespace detail {

/// Another name of a class's own key (attribute_map in transformers).
struct AlternativeName {
  std::string_view model_type;
  std::string_view name;
  std::string_view own;
};
inline constexpr AlternativeName kAlternativeNames[] = {
    {"gpt2", "hidden_size", "n_embd"},
    {"gpt2", "max_position_embeddings", "n_positions"},
    {"gpt2", "num_attention_heads", "n_head"},
    {"gpt2", "num_hidden_layers", "n_layer"},
    {"distilbert", "hidden_size", "dim"},
    {"distilbert", "num_attention_heads", "n_heads"},
    {"distilbert", "num_hidden_layers", "n_layers"},
    {"t5", "hidden_size", "d_model"},
    {"t5", "num_attention_heads", "num_heads"},
    {"t5", "num_hidden_layers", "num_layers"},
    {"t5", "head_dim", "d_kv"},
};

inline constexpr FixedKey kGpt2Fixed[] = {
    {"activation_function", R"(["gelu_new", "gelu_pytorch_tanh"])", "expected gelu_new or gelu_pytorch_tanh"},
    {"scale_attn_weights", "[true]", "attention divides its scores by the root of the head size; expected true"},
    {"scale_attn_by_inverse_layer_idx", "[false]",
     "attention of each layer has one scale; expected false, or weights of c_attn that hold the layer's factor"},
    {"add_cross_attention", "[false, null]", "there is no encoder to attend to; expected false"},
    {"tie_word_embeddings", "[true]", "the output layer is the token embeddings; expected true"},
    {"is_causal", "[true]", "attention sees earlier tokens alone; expected true"},
};
inline constexpr FixedKey kBertFixed[] = {
    {"hidden_act", R"(["gelu"])", "expected gelu"},
    {"position_embedding_type", R"(["absolute"])", "expected absolute"},
    {"is_decoder", "[false, null]", "attention sees all tokens; expected false, or a causal network such as gpt2"},
    {"add_cross_attention", "[false, null]", "there is no encoder to attend to; expected false"},
    {"tie_word_embeddings", "[true]", "the output layer of masked tokens is the token embeddings; expected true"},
};
inline constexpr FixedKey kDistilBertFixed[] = {
    {"activation", R"(["gelu"])", "expected gelu"},
    {"tie_word_embeddings", "[true]", "the output layer of masked tokens is the token embeddings; expected true"},
};
inline constexpr FixedKey kT5Fixed[] = {
    {"feed_forward_proj", R"(["relu", "gated-gelu"])", "expected relu or gated-gelu"},
    {"is_causal", "[true]", "the decoder's attention sees earlier tokens alone; expected true"},
    {"is_encoder_decoder", "[true]", "the network has an encoder and a decoder; expected true"},
};
inline constexpr FixedKey kVitFixed[] = {
    {"qkv_bias", "[true]", "queries, keys and values have a bias; expected true"},
};

inline std::span<const FixedKey> fixed_keys(std::string_view model_type) {
  if (model_type == "gpt2") return kGpt2Fixed;
  if (model_type == "bert" || model_type == "roberta" || model_type == "electra") return kBertFixed;
  if (model_type == "distilbert") return kDistilBertFixed;
  if (model_type == "t5") return kT5Fixed;
  if (model_type == "vit" || model_type == "deit") return kVitFixed;
  return {};
}

/// Adds the keys of T5 that say again, or otherwise, what feed_forward_proj says. transformers obeys them.
inline void refuse_other_feed_forward(const nlohmann::json& config, std::vector<RefusedKey>& refused) {
  const nlohmann::json form = config.value("feed_forward_proj", nlohmann::json("relu"));
  const bool is_gated = form == "gated-gelu";
  if (!is_gated && form != "relu") return;
  const auto activation = config.find("dense_act_fn");
  const bool agrees =
      activation == config.end() ||
      (is_gated ? *activation == "gelu_new" || *activation == "gelu_pytorch_tanh" : *activation == "relu");
  if (!agrees)
    refused.push_back({"dense_act_fn", "expected " + std::string(is_gated ? "gelu_new" : "relu") +
                                           ", as feed_forward_proj is " + form.dump()});
  if (const auto gated = config.find("is_gated_act"); gated != config.end() && *gated != is_gated)
    refused.push_back({"is_gated_act", "expected " + std::string(is_gated ? "true" : "false") +
                                           ", as feed_forward_proj is " + form.dump()});
}

/// Adds the class of a CLIP whose classifier takes the mean of the patches, without the class token and the last norm.
inline void refuse_mean_of_clip(const nlohmann::json& config, std::vector<RefusedKey>& refused) {
  const nlohmann::json classes = config.value("architectures", nlohmann::json::array());
  if (std::find(classes.begin(), classes.end(), "CLIPForImageClassification") != classes.end())
    refused.push_back({"architectures",
                       "transformers classifies the mean of the patches before the last LayerNorm, and vit has no such "
                       "classifier; expected CLIPModel or CLIPVisionModel, such as the one that it was tuned from"});
}

}  // namespace detail

/// Returns the name under which a config.json has the value of a class's own key. An alternative name goes first, as
/// transformers sets it last.
inline std::string written_name(const nlohmann::json& config, std::string_view own) {
  const nlohmann::json type = config.value("model_type", nlohmann::json());
  for (const detail::AlternativeName& one : detail::kAlternativeNames)
    if (one.own == own && type == one.model_type && config.contains(one.name)) return std::string(one.name);
  return std::string(own);
}

/// Returns the config of CLIP's image tower with the defaults of transformers' class, as files leave them out.
inline nlohmann::json complete_clip_json(const nlohmann::json& tower) {
  nlohmann::json config = {{"hidden_size", 768},    {"num_hidden_layers", 12},   {"num_attention_heads", 12},
                           {"patch_size", 32},      {"intermediate_size", 3072}, {"hidden_act", "quick_gelu"},
                           {"layer_norm_eps", 1e-5}};
  if (tower.is_object()) config.update(tower);
  return config;
}

namespace detail {

/// Adds a second description of CLIP's image tower that differs. CLIPModel obeys it, and CLIPVisionModel doesn't.
inline void refuse_second_tower(const nlohmann::json& config, std::vector<RefusedKey>& refused) {
  const auto older = config.find("vision_config_dict");
  if (older == config.end() || older->is_null()) return;
  const nlohmann::json tower = complete_clip_json(config.value("vision_config", nlohmann::json()));
  const nlohmann::json other = complete_clip_json(*older);
  const nlohmann::json compared = complete_clip_json(nullptr);
  for (const auto& [key, value] : compared.items())
    if (tower[key] != other[key])
      return refused.push_back({"vision_config_dict", key + " is " + other[key].dump() + " there and " +
                                                          tower[key].dump() +
                                                          " in vision_config; remove the one that isn't the weights'"});
}

}  // namespace detail

/// Returns the keys that ask for what the network of a model_type can't do here. Those of the families of llama are
/// model/llama_json.h's.
inline std::vector<RefusedKey> refused_fixed_keys(const nlohmann::json& config) {
  std::vector<RefusedKey> refused;
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string()) return refused;
  for (const FixedKey& fixed : detail::fixed_keys(type->get<std::string>())) {
    const auto value = config.find(fixed.key);
    if (value == config.end()) continue;
    const nlohmann::json expected = nlohmann::json::parse(fixed.expected);
    if (std::find(expected.begin(), expected.end(), *value) == expected.end())
      refused.push_back({std::string(fixed.key), std::string(fixed.reason)});
  }
  if (*type == "t5") detail::refuse_other_feed_forward(config, refused);
  if (*type == "clip" || *type == "clip_vision_model") detail::refuse_mean_of_clip(config, refused);
  if (*type == "clip") detail::refuse_second_tower(config, refused);
  if (const auto quantized = config.find("quantization_config"); quantized != config.end() && !quantized->is_null())
    refused.push_back({"quantization_config", "weights are read in floating point alone; save them dequantized"});
  if (const auto layers = config.find("per_layer_config"); layers != config.end() && !layers->empty())
    refused.push_back({"per_layer_config", "all layers have the same configuration here; expected null"});
  return refused;
}

}  // namespace trainctl::model
