// Small networks of the families that the kind llama has, as tests/reference/llama_families.py makes them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/config.h"

namespace trainctl::testing {

struct NamedLlama {
  std::string name;
  model::LlamaConfig config;
};

inline constexpr std::int64_t kFamilyVocabulary = 61;
inline constexpr std::int64_t kFamilyWindow = 7;

inline model::LlamaConfig llama_of_two_layers() {
  return {.hidden_size = 32,
          .num_layers = 2,
          .num_heads = 4,
          .num_key_value_heads = std::int64_t{2},
          .intermediate_size = std::int64_t{48},
          .max_position_embeddings = 64};
}

inline model::LlamaConfig small_gemma() {
  model::LlamaConfig config = llama_of_two_layers();
  config.head_size = 16;
  config.tie_embeddings = true;
  config.activation = model::GateActivation::gelu_tanh;
  config.norm_unit_offset = config.scale_embeddings = true;
  return config;
}

/// What Gemma 2 and 3 share.
inline model::LlamaConfig later_gemma() {
  model::LlamaConfig config = small_gemma();
  config.norm_placement = model::NormPlacement::pre_and_post;
  config.query_pre_attn_scalar = 24;
  config.sliding_window = kFamilyWindow;
  config.layer_types = {model::LayerType::sliding_attention, model::LayerType::full_attention};
  return config;
}

inline model::LlamaConfig small_gemma2() {
  model::LlamaConfig config = later_gemma();
  config.pad_token_id = 7;
  config.attn_logit_softcapping = 2;
  config.final_logit_softcapping = 3;
  return config;
}

inline model::LlamaConfig small_gemma3() {
  using enum model::LayerType;
  model::LlamaConfig config = later_gemma();
  config.num_layers = 4;
  config.layer_types = {sliding_attention, sliding_attention, full_attention};
  config.qk_norm = true;
  config.rope_theta = 1000000;
  config.rope_scaling = model::LinearRopeConfig{.factor = 8};
  config.rope_local_theta = 10000;
  return config;
}

inline model::LlamaConfig small_qwen3() {
  model::LlamaConfig config = llama_of_two_layers();
  config.head_size = 16;
  config.attention_bias = model::AttentionBias::all;
  config.qk_norm = true;
  return config;
}

inline model::LlamaConfig small_smollm3() {
  using enum model::PositionType;
  model::LlamaConfig config = llama_of_two_layers();
  config.num_layers = 4;
  config.tie_embeddings = true;
  config.rope_theta = 2000000;
  config.position_types = {rotary, rotary, rotary, none};
  return config;
}

/// Each family, and each of its features.
inline std::vector<NamedLlama> llama_families() {
  using enum model::LayerType;
  using enum model::PositionType;
  const model::LlamaConfig plain = llama_of_two_layers();
  model::LlamaConfig biased = plain;
  biased.attention_bias = model::AttentionBias::all;
  biased.mlp_bias = true;
  biased.pad_token_id = 5;
  biased.activation = model::GateActivation::gelu_tanh;
  model::LlamaConfig mistral = plain;
  mistral.sliding_window = kFamilyWindow;
  model::LlamaConfig ministral = mistral;
  ministral.layer_types = {full_attention, sliding_attention};
  model::LlamaConfig whole = plain;
  whole.head_size = 16;
  model::LlamaConfig qwen2 = plain;
  qwen2.attention_bias = model::AttentionBias::qkv;
  model::LlamaConfig sliding = qwen2;
  sliding.sliding_window = kFamilyWindow;
  sliding.layer_types = {full_attention, sliding_attention};
  qwen2.rope_theta = 1000000;
  model::LlamaConfig phi3 = mistral;
  phi3.fused_projections = true;
  phi3.pad_token_id = 11;
  model::LlamaConfig long_phi3 = plain;
  long_phi3.fused_projections = true;
  long_phi3.rope_scaling = model::LongRopeConfig{.short_factor = {1, 1.1, 1.2, 1.3},
                                                 .long_factor = {2, 2.5, 3, 3.5},
                                                 .original_max_position_embeddings = 16,
                                                 .factor = {},
                                                 .attention_factor = {}};
  model::LlamaConfig sliding_smollm3 = small_smollm3();
  sliding_smollm3.position_types = {rotary, none, rotary, rotary};
  sliding_smollm3.sliding_window = kFamilyWindow;
  sliding_smollm3.layer_types = {full_attention, sliding_attention, full_attention, full_attention};
  return {{"llama_biased", biased},
          {"mistral", mistral},
          {"mistral_whole", whole},
          {"ministral", ministral},
          {"qwen2", qwen2},
          {"qwen2_sliding", sliding},
          {"qwen3", small_qwen3()},
          {"gemma", small_gemma()},
          {"gemma2", small_gemma2()},
          {"gemma3", small_gemma3()},
          {"phi3", phi3},
          {"phi3_long", long_phi3},
          {"smollm3", small_smollm3()},
          {"smollm3_sliding", sliding_smollm3}};
}

}  // namespace trainctl::testing
