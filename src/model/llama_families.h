// The families of networks that the kind llama has, as transformers names them, and the features of each. What is read
// from a config.json, and what is written, follows from this one table. Without LibTorch.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace trainctl::model {

/// Whether a family's networks have a feature: never, if config.json says so, or always.
enum class Feature { never, optional, always };
/// The layers that slide: none, all of them if there is a window, or those that layer_types names.
enum class SlidingLayers { none, all, by_type };

struct LlamaFamily {
  std::string_view type;          // model_type
  std::string_view architecture;  // the class of transformers
  std::string_view activation_key = "hidden_act";
  Feature qkv_bias = Feature::never;        // of queries, keys and values alone
  Feature attention_bias = Feature::never;  // of the output, too
  Feature mlp_bias = Feature::never;
  Feature qk_norm = Feature::never;
  Feature is_gemma = Feature::never;  // norm_unit_offset and scale_embeddings
  Feature post_norms = Feature::never;
  Feature query_scalar = Feature::never;
  Feature attention_softcap = Feature::never;
  Feature final_softcap = Feature::never;
  SlidingLayers sliding = SlidingLayers::none;
  bool asks_for_windows = false;  // without use_sliding_window no layer slides
  Feature local_theta = Feature::never;
  Feature layers_without_rope = Feature::never;
  Feature fused_projections = Feature::never;

  // What transformers takes where config.json leaves a key out; 0: it has no such default.
  std::int64_t max_position_embeddings = 2048;
  double rope_theta = 10000;
  double rms_norm_eps = 1e-6;
  bool tied = false;
  std::int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  std::int64_t num_key_value_heads = 0;  // 0: num_attention_heads
  std::int64_t sliding_window = 0;
  std::int64_t query_pre_attn_scalar = 0;
  double attn_logit_softcapping = 0;
  double final_logit_softcapping = 0;
  std::optional<std::int64_t> pad_token_id{};
};

/// In the order in which an export looks for a family that has all features of a network.
inline constexpr std::array kLlamaFamilies = {LlamaFamily{.type = "llama",
                                                          .architecture = "LlamaForCausalLM",
                                                          .attention_bias = Feature::optional,
                                                          .mlp_bias = Feature::optional},
                                              LlamaFamily{.type = "mistral",
                                                          .architecture = "MistralForCausalLM",
                                                          .sliding = SlidingLayers::all,
                                                          .max_position_embeddings = 131072,
                                                          .num_key_value_heads = 8,
                                                          .sliding_window = 4096},
                                              LlamaFamily{.type = "ministral",
                                                          .architecture = "MinistralForCausalLM",
                                                          .sliding = SlidingLayers::by_type,
                                                          .max_position_embeddings = 131072,
                                                          .num_key_value_heads = 8,
                                                          .sliding_window = 4096},
                                              LlamaFamily{.type = "qwen2",
                                                          .architecture = "Qwen2ForCausalLM",
                                                          .qkv_bias = Feature::always,
                                                          .sliding = SlidingLayers::by_type,
                                                          .asks_for_windows = true,
                                                          .max_position_embeddings = 32768,
                                                          .num_key_value_heads = 32,
                                                          .sliding_window = 4096},
                                              LlamaFamily{.type = "qwen3",
                                                          .architecture = "Qwen3ForCausalLM",
                                                          .attention_bias = Feature::optional,
                                                          .qk_norm = Feature::always,
                                                          .sliding = SlidingLayers::by_type,
                                                          .asks_for_windows = true,
                                                          .max_position_embeddings = 32768,
                                                          .head_dim = 128,
                                                          .num_key_value_heads = 32,
                                                          .sliding_window = 4096},
                                              LlamaFamily{.type = "smollm3",
                                                          .architecture = "SmolLM3ForCausalLM",
                                                          .attention_bias = Feature::optional,
                                                          .mlp_bias = Feature::optional,
                                                          .sliding = SlidingLayers::by_type,
                                                          .asks_for_windows = true,
                                                          .layers_without_rope = Feature::optional,
                                                          .max_position_embeddings = 32768,
                                                          .rope_theta = 2000000,
                                                          .tied = true,
                                                          .num_key_value_heads = 4,
                                                          .pad_token_id = 128004},
                                              LlamaFamily{.type = "gemma",
                                                          .architecture = "GemmaForCausalLM",
                                                          .attention_bias = Feature::optional,
                                                          .is_gemma = Feature::always,
                                                          .max_position_embeddings = 8192,
                                                          .tied = true,
                                                          .head_dim = 256,
                                                          .num_key_value_heads = 16,
                                                          .pad_token_id = 0},
                                              LlamaFamily{.type = "gemma2",
                                                          .architecture = "Gemma2ForCausalLM",
                                                          .activation_key = "hidden_activation",
                                                          .attention_bias = Feature::optional,
                                                          .is_gemma = Feature::always,
                                                          .post_norms = Feature::always,
                                                          .query_scalar = Feature::optional,
                                                          .attention_softcap = Feature::optional,
                                                          .final_softcap = Feature::optional,
                                                          .sliding = SlidingLayers::by_type,
                                                          .max_position_embeddings = 8192,
                                                          .tied = true,
                                                          .head_dim = 256,
                                                          .num_key_value_heads = 4,
                                                          .sliding_window = 4096,
                                                          .query_pre_attn_scalar = 256,
                                                          .attn_logit_softcapping = 50,
                                                          .final_logit_softcapping = 30,
                                                          .pad_token_id = 0},
                                              LlamaFamily{.type = "gemma3_text",
                                                          .architecture = "Gemma3ForCausalLM",
                                                          .activation_key = "hidden_activation",
                                                          .attention_bias = Feature::optional,
                                                          .qk_norm = Feature::always,
                                                          .is_gemma = Feature::always,
                                                          .post_norms = Feature::always,
                                                          .query_scalar = Feature::optional,
                                                          .final_softcap = Feature::optional,
                                                          .sliding = SlidingLayers::by_type,
                                                          .local_theta = Feature::optional,
                                                          .max_position_embeddings = 131072,
                                                          .rope_theta = 1000000,
                                                          .tied = true,
                                                          .head_dim = 256,
                                                          .num_key_value_heads = 4,
                                                          .sliding_window = 4096,
                                                          .query_pre_attn_scalar = 256,
                                                          .pad_token_id = 0},
                                              LlamaFamily{.type = "phi3",
                                                          .architecture = "Phi3ForCausalLM",
                                                          .sliding = SlidingLayers::all,
                                                          .fused_projections = Feature::always,
                                                          .max_position_embeddings = 4096,
                                                          .rms_norm_eps = 1e-5,
                                                          .pad_token_id = 32000}};

/// Returns the family of a model_type; null: no network of the kind llama.
inline const LlamaFamily* llama_family(std::string_view type) {
  const auto* const found = std::find_if(kLlamaFamilies.begin(), kLlamaFamilies.end(),
                                         [&](const LlamaFamily& family) { return family.type == type; });
  return found == kLlamaFamilies.end() ? nullptr : &*found;
}

/// Returns the keys of the network that a family can't express.
inline std::vector<std::string> obstacles(const LlamaFamily& family, const LlamaConfig& config) {
  std::vector<std::string> keys;
  const auto compare = [&](Feature feature, bool has_it, const char* key) {
    if ((feature == Feature::never && has_it) || (feature == Feature::always && !has_it)) keys.emplace_back(key);
  };
  const auto has_bias = [&](AttentionBias bias) { return config.attention_bias == bias; };
  if (family.qkv_bias == Feature::always
          ? !has_bias(AttentionBias::qkv)
          : has_bias(AttentionBias::qkv) || (has_bias(AttentionBias::all) && family.attention_bias == Feature::never))
    keys.emplace_back("model.attention_bias");
  compare(family.mlp_bias, config.mlp_bias, "model.mlp_bias");
  compare(family.qk_norm, config.qk_norm, "model.qk_norm");
  compare(family.is_gemma, config.norm_unit_offset, "model.norm_unit_offset");
  compare(family.is_gemma, config.scale_embeddings, "model.scale_embeddings");
  compare(family.post_norms, config.norm_placement == NormPlacement::pre_and_post, "model.norm_placement");
  compare(family.query_scalar, config.query_pre_attn_scalar.has_value(), "model.query_pre_attn_scalar");
  compare(family.attention_softcap, config.attn_logit_softcapping.has_value(), "model.attn_logit_softcapping");
  compare(family.final_softcap, config.final_logit_softcapping.has_value(), "model.final_logit_softcapping");
  const bool slides_partly = config.sliding_window && config.num_sliding() < config.num_layers;
  if (config.sliding_window && family.sliding == SlidingLayers::none) keys.emplace_back("model.sliding_window");
  if (slides_partly && family.sliding == SlidingLayers::all) keys.emplace_back("model.layer_types");
  compare(family.local_theta, config.rope_local_theta.has_value(), "model.rope_local_theta");
  const bool rotates = std::find(config.position_types.begin(), config.position_types.end(), PositionType::none) ==
                       config.position_types.end();
  compare(family.layers_without_rope, !rotates, "model.position_types");
  compare(family.fused_projections, config.fused_projections, "model.fused_projections");
  const bool is_long = config.rope_scaling.get_if<PlainRopeConfig>() == nullptr;
  if (family.fused_projections == Feature::always && is_long && config.rope_scaling.get_if<LongRopeConfig>() == nullptr)
    keys.emplace_back("model.rope_scaling");
  // transformers' Gemma 3 rounds the range of yarn in any case.
  const auto* const yarn = config.rope_scaling.get_if<YarnRopeConfig>();
  if (family.local_theta != Feature::never && yarn != nullptr && !yarn->truncate)
    keys.emplace_back("model.rope_scaling");
  return keys;
}

/// Returns the first family that has all features of the network; null: none has.
inline const LlamaFamily* family_with(const LlamaConfig& config) {
  const auto* const found = std::find_if(kLlamaFamilies.begin(), kLlamaFamilies.end(),
                                         [&](const LlamaFamily& family) { return obstacles(family, config).empty(); });
  return found == kLlamaFamilies.end() ? nullptr : &*found;
}

/// Returns the family that lacks the fewest features of the network.
inline const LlamaFamily& closest_family(const LlamaConfig& config) {
  return *std::min_element(kLlamaFamilies.begin(), kLlamaFamilies.end(),
                           [&](const LlamaFamily& one, const LlamaFamily& other) {
                             return obstacles(one, config).size() < obstacles(other, config).size();
                           });
}

}  // namespace trainctl::model
