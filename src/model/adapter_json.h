// The adapter_config.json of Hugging Face's peft, as far as adapters here can obey it. Read by the experiment, which
// has no LibTorch, and by the loader of adapters.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/transformers_keys.h"

namespace trainctl::model {

/// The facts of an adapter_config.json.
struct AdapterJson {
  std::int64_t rank = 8;
  double scale = 1;    // of the product B A: lora_alpha / r, or lora_alpha / √r with use_rslora
  double dropout = 0;  // of an adapter's input
  std::optional<std::vector<std::string>> target_modules{};  // none: another key than a list chooses the layers
  std::vector<std::string> modules_to_save{};                // trained in full; null in the file is an empty list
  std::vector<RefusedKey> refused{};                         // features that adapters here lack
};

namespace detail {

/// Returns whether a key is of no effect on what adapters compute, or is read by read_adapter_json().
inline bool is_harmless_adapter_key(std::string_view key) {
  constexpr std::array<std::string_view, 25> kHarmless = {"auto_mapping",
                                                          "base_model_name_or_path",
                                                          "ensure_weight_tying",
                                                          "exclude_modules",
                                                          "fan_in_fan_out",
                                                          "inference_mode",
                                                          "init_lora_weights",
                                                          "layers_pattern",
                                                          "layers_to_transform",
                                                          "lora_alpha",
                                                          "lora_dropout",
                                                          "megatron_core",
                                                          "modules_to_save",
                                                          "peft_type",
                                                          "peft_version",
                                                          "qalora_group_size",
                                                          "r",
                                                          "revision",
                                                          "target_modules",
                                                          "task_type",
                                                          "use_rslora",
                                                          "eva_config",
                                                          "loftq_config",
                                                          "corda_config",
                                                          "lora_ga_config"};
  return std::find(kHarmless.begin(), kHarmless.end(), key) != kHarmless.end();
}

/// Returns whether a value turns a feature off: null, false, "none", or an empty list or mapping.
inline bool turns_off(const nlohmann::json& value) {
  return value.is_null() || value == false || value == "none" || (value.is_structured() && value.empty());
}

/// Returns the names of a list; none for another value.
inline std::optional<std::vector<std::string>> list_of_names(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return std::nullopt;
  return found->get<std::vector<std::string>>();
}

inline void refuse_adapter_features(const nlohmann::json& json, std::vector<RefusedKey>& refused) {
  if (json.value("peft_type", nlohmann::json()) != "LORA") refused.push_back({"peft_type", "expected LORA"});
  if (const auto first = json.find("init_lora_weights"); first != json.end()) {
    // Other ways to begin change the base's weights: pissa, olora, corda, loftq.
    const bool keeps_base = !first->is_string() || *first == "gaussian" || *first == "eva" || *first == "orthogonal";
    if (!keeps_base)
      refused.push_back({"init_lora_weights", "changes the weights of the base; merge the adapters with peft first"});
  }
  for (const auto& [key, value] : json.items()) {
    if (is_harmless_adapter_key(key) || turns_off(value)) continue;
    if (key == "use_dora")
      refused.push_back({key, "adapters here don't learn the length of rows (DoRA); merge them with peft first"});
    else if (key == "bias" || key == "lora_bias")
      refused.push_back({key, "adapters here have no bias; merge them with peft first"});
    else if (key == "rank_pattern" || key == "alpha_pattern")
      refused.push_back({key, "all adapters of a run have one rank and one alpha; merge them with peft first"});
    else
      refused.push_back({key, "adapters here don't have this feature; merge them with peft first"});
  }
}

}  // namespace detail

/// Reads the keys. Throws nlohmann's exception for a value of another type than peft writes.
inline AdapterJson read_adapter_json(const nlohmann::json& json) {
  AdapterJson found;
  detail::refuse_adapter_features(json, found.refused);
  found.rank = json.value("r", found.rank);
  const double rank = static_cast<double>(std::max<std::int64_t>(found.rank, 1));
  const bool is_rank_stabilized = json.value("use_rslora", false);
  found.scale = json.value("lora_alpha", 8.0) / (is_rank_stabilized ? std::sqrt(rank) : rank);
  found.dropout = json.value("lora_dropout", found.dropout);
  found.modules_to_save = detail::list_of_names(json, "modules_to_save").value_or(std::vector<std::string>());
  const auto narrows = [&](const char* key) { return json.contains(key) && !detail::turns_off(json[key]); };
  if (!narrows("layers_to_transform") && !narrows("exclude_modules"))
    found.target_modules = detail::list_of_names(json, "target_modules");
  return found;
}

}  // namespace trainctl::model
