// The config.json of transformers for the families of llama: what it leaves out, and what no network here can do.
// Read by the experiment, which has no LibTorch, and by the loader of weights.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "model/llama_families.h"
#include "model/transformers_keys.h"

namespace trainctl::model {

namespace detail {

using Json = nlohmann::json;

inline void set_default(Json& config, const char* key, const Json& value) {
  if (!config.contains(key)) config[key] = value;
}

/// Returns the number of layers, as far as a network here may have.
inline std::int64_t num_layers_of(const Json& config) {
  constexpr std::int64_t kMost = 10'000;
  return std::clamp(config.value("num_hidden_layers", std::int64_t{0}), std::int64_t{0}, kMost);
}

/// Sets `layer_types` and `sliding_window` as transformers has them. Without a layer that slides the window is null.
inline void state_windows(Json& config, const LlamaFamily& family) {
  if (family.sliding == SlidingLayers::none) return;
  const auto as_default = [](auto value) { return value == 0 ? Json(nullptr) : Json(value); };
  set_default(config, "sliding_window", as_default(family.sliding_window));
  if (family.sliding == SlidingLayers::all) return;
  if (family.asks_for_windows && !config.value("use_sliding_window", false)) config["sliding_window"] = nullptr;
  const std::int64_t num_layers = num_layers_of(config);
  if (!config.contains("layer_types") || !config["layer_types"].is_array()) {
    // transformers' Gemma 2 has no such key.
    const bool has_pattern = family.qk_norm == Feature::always;
    const std::int64_t pattern =
        has_pattern ? std::max(config.value("sliding_window_pattern", std::int64_t{6}), std::int64_t{1}) : 2;
    const std::int64_t first = family.asks_for_windows ? config.value("max_window_layers", std::int64_t{28}) : 0;
    const Json rotation = config.value("no_rope_layers", Json::array());
    const auto has_no_rope = [&](std::size_t i) { return i < rotation.size() && rotation.at(i) == 0; };
    config["layer_types"] = Json::array();
    for (std::int64_t i = 0; i < num_layers; ++i) {
      const bool slides = family.is_gemma == Feature::always             ? (i + 1) % pattern != 0
                          : family.layers_without_rope != Feature::never ? has_no_rope(static_cast<std::size_t>(i))
                                                                         : i >= first;
      config["layer_types"].push_back(slides && !config["sliding_window"].is_null() ? "sliding_attention"
                                                                                    : "full_attention");
    }
  }
  const Json& types = config["layer_types"];
  if (std::find(types.begin(), types.end(), "sliding_attention") == types.end()) config["sliding_window"] = nullptr;
  if (family.asks_for_windows) config["use_sliding_window"] = !config["sliding_window"].is_null();
}

/// Sets `no_rope_layers`, in which 1 says that a layer has rotary positions.
inline void state_rotation(Json& config, const LlamaFamily& family) {
  if (family.layers_without_rope == Feature::never) return;
  if (const auto given = config.find("no_rope_layers"); given != config.end() && !given->is_null()) {
    // transformers reads one for each of the layers.
    while (config.contains("num_hidden_layers") && given->is_array() &&
           static_cast<std::int64_t>(given->size()) > num_layers_of(config))
      given->erase(given->size() - 1);
    return;
  }
  const std::int64_t interval = std::max(config.value("no_rope_layer_interval", std::int64_t{4}), std::int64_t{1});
  config["no_rope_layers"] = Json::array();
  for (std::int64_t i = 0; i < num_layers_of(config); ++i)
    config["no_rope_layers"].push_back((i + 1) % interval == 0 ? 0 : 1);
}

/// Returns the scaling of one type of layers as config.json writes it, in transformers 5 or 4.
inline Json written_rope(const Json& config, const LlamaFamily& family, std::string_view layer_type) {
  const Json parameters = config.value("rope_parameters", Json());
  const Json scaling = config.value("rope_scaling", Json());
  const bool has_two = family.local_theta != Feature::never;
  const bool is_full = layer_type == "full_attention";
  Json rope;
  if (has_two) {
    if (parameters.is_object()) rope = parameters.value(layer_type, Json());
  } else {
    // transformers prefers the older key, and then reads nothing of the newer one. Gemma 3 alone has types of layers.
    for (const Json& one : {scaling, parameters})
      if (rope.empty() && !one.is_null()) rope = one;
  }
  if (rope.is_null()) rope = {{"rope_type", "default"}};
  // Gemma 3 adds the older key to what layers that see everything have, whose rope_type comes before an older type.
  if (has_two && is_full && !scaling.is_null()) rope.update(scaling);
  if (has_two) rope.erase("truncate");  // transformers looks for it outside of the types
  for (const char* other : {"full_attention", "sliding_attention"}) rope.erase(other);
  return rope;
}

/// Adds what transformers refuses of the keys that rotary positions follow from. `complete` is the written config with
/// every key.
inline void refuse_rope(const Json& written, const Json& complete, const LlamaFamily& family,
                        std::vector<RefusedKey>& refused) {
  const std::string key = written.value("rope_scaling", Json()).empty() ? "rope_parameters" : "rope_scaling";
  const bool has_two = family.local_theta != Feature::never;
  const Json types = complete.value("layer_types", Json::array());
  const Json parameters = written.value(has_two ? "rope_parameters" : key, Json());
  for (const auto& [name, value] : parameters.items()) {
    const bool is_type = name == "full_attention" || name == "sliding_attention";
    if (has_two && !is_type && !value.is_null()) {
      refused.push_back({"rope_parameters", "expected one mapping for full_attention and one for sliding_attention"});
      break;
    }
    if (!has_two && std::find(types.begin(), types.end(), name) != types.end()) {
      refused.push_back({key, "transformers' " + std::string(family.type) +
                                  " has the same rotary positions in all layers; expected no " + name});
      break;
    }
  }
  const Json& rope = complete["rope_parameters"];
  const std::pair<const char*, std::vector<const char*>> needed[] = {
      {"linear", {"factor"}},
      {"dynamic", {"factor"}},
      {"yarn", {"factor"}},
      {"llama3", {"factor", "low_freq_factor", "high_freq_factor"}}};
  for (const auto& [type, names] : needed)
    for (const char* name : names)
      if (rope["rope_type"] == type && !rope.contains(name))
        refused.push_back({key, "rope_type " + std::string(type) + " needs " + name});
  // By types of layers, transformers sets the pretraining's length of types that the network has.
  const char* const original = "original_max_position_embeddings";
  const Json full = written_rope(written, family, "full_attention");
  const bool lacks_length = full.contains(original)
                                ? full[original].is_null()
                                : std::find(types.begin(), types.end(), "full_attention") == types.end();
  if (has_two && rope.contains(original) && lacks_length)
    refused.push_back({key, "rope_type " + rope["rope_type"].get<std::string>() + " needs " + original});
}

/// Returns the scaling of one type of layers, with its base.
inline Json rope_of(const Json& config, const LlamaFamily& family, const char* layer_type) {
  const bool is_local = family.local_theta != Feature::never && layer_type == std::string_view("sliding_attention");
  Json rope = written_rope(config, family, layer_type);
  if (!rope.contains("rope_type")) rope["rope_type"] = rope.value("type", Json("default"));
  rope.erase("type");
  if (rope["rope_type"] == "su" || (family.fused_projections == Feature::always && rope["rope_type"] == "yarn"))
    rope["rope_type"] = "longrope";
  if (!rope.contains("rope_theta"))
    rope["rope_theta"] = is_local ? config.value("rope_local_base_freq", Json(10000.0))
                                  : config.value("rope_theta", Json(family.rope_theta));
  const Json& type = rope["rope_type"];
  // To transformers, null and 0 are as if these were left out.
  for (const char* key : {"beta_fast", "beta_slow", "mscale", "mscale_all_dim"})
    if (const auto value = rope.find(key); type == "yarn" && value != rope.end() && (value->is_null() || *value == 0))
      rope.erase(value);
  if (type != "yarn" && type != "longrope" && type != "llama3") return rope;
  // A key outside the scaling comes first, except where layers have two; Phi-3 has one even if config.json leaves it
  // out.
  const char* const original = "original_max_position_embeddings";
  if (const auto outside = config.find(original);
      family.local_theta == Feature::never && outside != config.end() && outside->is_number())
    rope[original] = *outside;
  else if (family.fused_projections == Feature::always)
    rope[original] = family.max_position_embeddings;
  else if (!rope.contains(original) || rope[original].is_null())
    rope[original] = config["max_position_embeddings"];
  if (type == "yarn" && rope.contains("factor") && rope["factor"].is_null())
    rope["factor"] = config["max_position_embeddings"].get<double>() / rope[original].get<double>();
  return rope;
}

/// Sets `rope_parameters`, of layers that see everything, and `rope_local_base_freq`: null where it is the same.
inline void state_rope(Json& config, const LlamaFamily& family) {
  const Json full = rope_of(config, family, "full_attention");
  if (family.local_theta != Feature::never) {
    const Json local = rope_of(config, family, "sliding_attention");
    const bool slides = !config["sliding_window"].is_null();
    config["rope_local_base_freq"] = slides && local != full ? local["rope_theta"] : Json(nullptr);
    config["rope_local_type"] = slides && local != full ? local["rope_type"] : Json("default");
  }
  config["rope_parameters"] = full;
  for (const char* old : {"rope_scaling", "rope_theta"}) config.erase(old);
}

}  // namespace detail

/// Returns the family of a config.json, llama's without a model_type; null: no network of the kind llama.
inline const LlamaFamily* llama_family_of(const nlohmann::json& config) {
  const nlohmann::json type = config.value("model_type", nlohmann::json(LlamaConfig::kind));
  // transformers' AutoConfig takes a Mistral with layer_types for a Ministral.
  if (type == "mistral" && config.contains("layer_types")) return llama_family("ministral");
  return type.is_string() ? llama_family(type.get<std::string>()) : nullptr;
}

/// Returns the config.json with every key that decides what the network computes.
inline nlohmann::json complete_llama_json(nlohmann::json config, const LlamaFamily& family) {
  using detail::set_default;
  config["model_type"] = family.type;
  if (config.contains("head_dim") && config["head_dim"].is_null()) config.erase("head_dim");
  if (config.contains("num_key_value_heads") && config["num_key_value_heads"].is_null()) {
    config.erase("num_key_value_heads");
    if (config.contains("num_attention_heads")) config["num_key_value_heads"] = config["num_attention_heads"];
  }
  if (family.head_dim > 0) set_default(config, "head_dim", family.head_dim);
  if (family.num_key_value_heads > 0) set_default(config, "num_key_value_heads", family.num_key_value_heads);
  set_default(config, "max_position_embeddings", family.max_position_embeddings);
  set_default(config, "rms_norm_eps", family.rms_norm_eps);
  set_default(config, "tie_word_embeddings", family.tied);
  if (family.pad_token_id) set_default(config, "pad_token_id", *family.pad_token_id);
  // PyTorch's padding_idx counts from the end, too: -1 is the last token.
  if (const auto pad = config.find("pad_token_id"), size = config.find("vocab_size");
      pad != config.end() && pad->is_number_integer() && *pad < 0 && size != config.end() && size->is_number_integer())
    *pad = pad->get<std::int64_t>() + size->get<std::int64_t>();
  const char* const usual = family.is_gemma == Feature::always ? "gelu_pytorch_tanh" : "silu";
  const std::string activation(family.activation_key);
  if (!config.contains(activation) || config[activation].is_null()) config[activation] = usual;
  if (config[activation] == "gelu_new") config[activation] = "gelu_pytorch_tanh";
  if (config[activation] == "swish") config[activation] = "silu";
  if (family.attention_bias != Feature::never) set_default(config, "attention_bias", false);
  if (family.mlp_bias != Feature::never) set_default(config, "mlp_bias", false);
  if (family.query_scalar != Feature::never) set_default(config, "query_pre_attn_scalar", family.query_pre_attn_scalar);
  const auto limit = [](double value) { return value == 0 ? nlohmann::json(nullptr) : nlohmann::json(value); };
  if (family.attention_softcap != Feature::never)
    set_default(config, "attn_logit_softcapping", limit(family.attn_logit_softcapping));
  if (family.final_softcap != Feature::never)
    set_default(config, "final_logit_softcapping", limit(family.final_logit_softcapping));
  detail::state_rotation(config, family);
  detail::state_windows(config, family);
  detail::state_rope(config, family);
  return config;
}

/// Returns what a config.json asks for and the kind llama can't do.
inline std::vector<RefusedKey> refused_keys(const nlohmann::json& written, const LlamaFamily& family) {
  const nlohmann::json config = complete_llama_json(written, family);
  std::vector<RefusedKey> refused;
  const std::string type(family.type);
  const auto refuse = [&](const std::string& key, const std::string& reason) {
    refused.push_back({.key = key, .reason = reason});
  };
  const auto is_set = [&](const char* key) {
    const auto value = config.find(key);
    return value != config.end() && !value->is_null() && *value != false && *value != 0 && *value != 0.0;
  };
  const std::string activation(family.activation_key);
  const auto has = [](Feature feature) { return feature != Feature::never; };
  const bool makes_window = family.sliding == SlidingLayers::by_type && !family.asks_for_windows;
  const std::pair<std::string, bool> required[] = {{activation, true},
                                                   {"vocab_size", true},
                                                   {"hidden_size", true},
                                                   {"intermediate_size", true},
                                                   {"num_hidden_layers", true},
                                                   {"num_attention_heads", true},
                                                   {"head_dim", family.head_dim > 0},
                                                   {"max_position_embeddings", true},
                                                   {"rms_norm_eps", true},
                                                   {"tie_word_embeddings", true},
                                                   {"attention_dropout", true},
                                                   {"attention_bias", has(family.attention_bias)},
                                                   {"mlp_bias", has(family.mlp_bias)},
                                                   {"query_pre_attn_scalar", has(family.query_scalar)},
                                                   {"original_max_position_embeddings", has(family.fused_projections)},
                                                   // The mask of a window is made even if no layer has one.
                                                   {"sliding_window", makes_window}};
  for (const auto& [key, is_read] : required)
    if (const auto value = written.find(key); is_read && value != written.end() && value->is_null())
      refuse(key, "transformers' " + type + " takes no null; expected a value, or no such key");
  if (has(family.attention_bias) && !config["attention_bias"].is_boolean() && !config["attention_bias"].is_null())
    refuse("attention_bias", "expected true or false");
  if (config[activation] != "silu" && config[activation] != "gelu_pytorch_tanh")
    refuse(activation, "expected silu or gelu_pytorch_tanh");
  if (family.attention_bias == Feature::never && is_set("attention_bias"))
    refuse("attention_bias", "transformers' " + type + " has no such biases; expected false");
  if (family.mlp_bias == Feature::never && is_set("mlp_bias"))
    refuse("mlp_bias", "transformers' " + type + " has no such biases; expected false");
  if (family.attention_softcap == Feature::never && is_set("attn_logit_softcapping"))
    refuse("attn_logit_softcapping", "transformers' " + type + " ignores this limit; expected null");
  if (is_set("use_bidirectional_attention"))
    refuse("use_bidirectional_attention", "attention sees earlier tokens alone; expected false");
  if (const auto causal = config.find("is_causal"); causal != config.end() && *causal != true)
    refuse("is_causal", "attention sees earlier tokens alone; expected true");
  for (const char* key : {"resid_pdrop", "embd_pdrop"})
    if (is_set(key)) refuse(key, "dropout is of attention weights alone; expected 0");
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"})
    if (is_set(key)) refuse(key, "layers have no experts; expected a dense network");
  const bool has_pattern = family.is_gemma == Feature::always && family.qk_norm == Feature::always;
  const bool has_interval = family.layers_without_rope != Feature::never;
  for (const auto& [key, is_read] :
       {std::pair("sliding_window_pattern", has_pattern), std::pair("no_rope_layer_interval", has_interval)})
    if (const auto value = config.find(key);
        is_read && value != config.end() && (!value->is_number_integer() || *value < 1))
      refuse(key, "expected a number of layers, at least 1");
  if (const auto first = config.find("max_window_layers");
      family.asks_for_windows && !has_interval && first != config.end() && !first->is_number_integer())
    refuse("max_window_layers", "expected a number of layers");
  if (const auto types = written.find("layer_types");
      family.sliding == SlidingLayers::by_type && types != written.end() && !types->is_array() && !types->is_null())
    refuse("layer_types", "expected a list, or null");
  const auto lacks_layers = [&](const char* key) {
    const auto list = config.find(key);
    const auto layers = config.find("num_hidden_layers");
    return list != config.end() && list->is_array() && layers != config.end() && layers->is_number() &&
           *layers == detail::num_layers_of(config) &&  // a number out of range is refused as num_layers
           list->size() != static_cast<std::size_t>(detail::num_layers_of(config));
  };
  for (const char* key : {"layer_types", "no_rope_layers"})
    if (lacks_layers(key))
      refuse(key, "expected one for each of the layers, num_hidden_layers " + config["num_hidden_layers"].dump());
  const nlohmann::json rotation = config.value("no_rope_layers", nlohmann::json::array());
  if (std::any_of(rotation.begin(), rotation.end(), [](const auto& layer) { return !layer.is_number_integer(); }))
    refuse("no_rope_layers", "expected 1, or 0 for a layer without rotary positions");
  const nlohmann::json types = config.value("layer_types", nlohmann::json::array());
  const auto names = [&](const char* one) { return std::find(types.begin(), types.end(), one) != types.end(); };
  const bool has_window =
      family.sliding != SlidingLayers::none && !config.value("sliding_window", nlohmann::json()).is_null();
  // Without layer_types, the cache of transformers keeps this number of tokens, whatever attention sees.
  for (const char* key : {"sliding_window", "attention_chunk_size"})
    if (const auto length = config.find(key); types.empty() && !has_window && length != config.end() &&
                                              length->is_number() && *length < config["max_position_embeddings"])
      refuse(key, "transformers' " + type + " has this limit in generation alone; expected null");
  const auto is_known = [](const nlohmann::json& layer) {
    return layer == "full_attention" || layer == "sliding_attention";
  };
  if (lacks_layers("layer_types")) {
    // It is refused above.
  } else if (!std::all_of(types.begin(), types.end(), is_known)) {
    refuse("layer_types", "expected full_attention and sliding_attention");
  } else if (family.sliding != SlidingLayers::by_type && names(has_window ? "full_attention" : "sliding_attention")) {
    refuse("layer_types", "transformers' " + type + " has layers of one type; expected " +
                              (has_window ? "sliding_attention" : "full_attention") + " for each of them");
  } else if (names("sliding_attention") && !has_window) {
    refuse("layer_types", std::string("layers of sliding_attention need sliding_window") +
                              (family.asks_for_windows ? " and use_sliding_window: true" : ""));
  }
  const nlohmann::json whole = 1.0;
  for (const nlohmann::json& part :
       {config.value("partial_rotary_factor", whole), config["rope_parameters"].value("partial_rotary_factor", whole)})
    if (!part.is_null() && part != 1.0 && part != 1) {
      refuse("partial_rotary_factor", "positions turn whole heads; expected 1");
      break;
    }
  if (config.value("rope_local_type", "default") != "default")
    refuse("rope_parameters", "layers that slide have plain rotary positions, or those of the others");
  detail::refuse_rope(written, config, family, refused);
  return refused;
}

}  // namespace trainctl::model
