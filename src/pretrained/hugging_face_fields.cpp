#include "core/error.h"
#include "core/text.h"
#include "model/llama_families.h"
#include "pretrained/bert_families.h"
#include "pretrained/hugging_face_config.h"
#include "pretrained/vit_families.h"

namespace trainctl::pretrained {
namespace {

using Json = nlohmann::ordered_json;

Json structure(const model::BertConfig& config, const ModelInfo& facts, std::string_view model_type) {
  return bert_structure(config, facts, bert_family(model_type, config));
}

Json structure(const model::Gpt2Config& config, const ModelInfo& facts, std::string_view) {
  return {{"model_type", *model::Gpt2Config::traits.transformers_type},
          {"vocab_size", facts.vocab_size},
          {"n_embd", config.hidden_size},
          {"n_layer", config.num_layers},
          {"n_head", config.num_heads},
          {"n_inner", config.inner_size()},
          {"n_positions", config.max_position_embeddings},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", config.layer_norm_epsilon}};
}

Json scaling(const model::PlainRopeConfig&) {
  return {{"rope_type", "default"}};
}
Json scaling(const model::LinearRopeConfig& config) {
  return {{"rope_type", "linear"}, {"factor", config.factor}};
}
Json scaling(const model::DynamicRopeConfig& config) {
  return {{"rope_type", "dynamic"}, {"factor", config.factor}};
}
Json scaling(const model::YarnRopeConfig& config) {
  Json json = {{"rope_type", "yarn"},
               {"factor", config.factor},
               {"original_max_position_embeddings", config.original_max_position_embeddings},
               {"beta_fast", config.beta_fast},
               {"beta_slow", config.beta_slow},
               {"truncate", config.truncate}};
  if (config.attention_factor) json["attention_factor"] = *config.attention_factor;
  if (config.mscale) json["mscale"] = *config.mscale;
  if (config.mscale_all_dim) json["mscale_all_dim"] = *config.mscale_all_dim;
  return json;
}
Json scaling(const model::LongRopeConfig& config) {
  Json json = {{"rope_type", "longrope"},
               {"short_factor", config.short_factor},
               {"long_factor", config.long_factor},
               {"original_max_position_embeddings", config.original_max_position_embeddings}};
  if (config.factor) json["factor"] = *config.factor;
  if (config.attention_factor) json["attention_factor"] = *config.attention_factor;
  return json;
}
Json scaling(const model::Llama3RopeConfig& config) {
  return {{"rope_type", "llama3"},
          {"factor", config.factor},
          {"low_freq_factor", config.low_freq_factor},
          {"high_freq_factor", config.high_freq_factor},
          {"original_max_position_embeddings", config.original_max_position_embeddings}};
}

Json null_or(const auto& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// Adds the window, and which layers have it.
void add_windows(Json& json, const model::LlamaConfig& config, const model::LlamaFamily& family) {
  if (family.sliding == model::SlidingLayers::none) return;
  json["sliding_window"] = null_or(config.sliding_window);
  if (family.sliding == model::SlidingLayers::all) return;
  if (family.asks_for_windows) json["use_sliding_window"] = config.sliding_window.has_value();
  // transformers' Gemma and Ministral make the window's mask even if no layer has one.
  else if (!config.sliding_window)
    json["sliding_window"] = family.sliding_window;
  json["layer_types"] = Json::array();
  for (std::int64_t i = 0; i < config.num_layers; ++i)
    json["layer_types"].push_back(config.slides(static_cast<std::size_t>(i)) ? "sliding_attention" : "full_attention");
}

Json rope_parameters(const model::LlamaConfig& config, const model::LlamaFamily& family) {
  Json rope = config.rope_scaling.visit([](const auto& one) { return scaling(one); });
  rope["rope_theta"] = config.rope_theta;
  // transformers asks for the factor that else follows from the two lengths.
  if (const auto* longrope = config.rope_scaling.get_if<model::LongRopeConfig>(); longrope != nullptr)
    rope["factor"] = longrope->factor.value_or(static_cast<double>(config.max_position_embeddings) /
                                               static_cast<double>(longrope->original_max_position_embeddings));
  if (family.local_theta == model::Feature::never) return rope;
  const Json local =
      config.rope_local_theta ? Json{{"rope_type", "default"}, {"rope_theta", *config.rope_local_theta}} : rope;
  return {{"full_attention", rope}, {"sliding_attention", local}};
}

/// Adds the keys that some families have and others lack.
void add_features(Json& json, const model::LlamaConfig& config, const model::LlamaFamily& family) {
  using model::Feature;
  if (family.attention_bias != Feature::never)
    json["attention_bias"] = config.attention_bias == model::AttentionBias::all;
  if (family.mlp_bias != Feature::never) json["mlp_bias"] = config.mlp_bias;
  if (family.query_scalar != Feature::never)
    json["query_pre_attn_scalar"] = config.query_pre_attn_scalar.value_or(config.size_of_head());
  if (family.attention_softcap != Feature::never)
    json["attn_logit_softcapping"] = null_or(config.attn_logit_softcapping);
  if (family.final_softcap != Feature::never) json["final_logit_softcapping"] = null_or(config.final_logit_softcapping);
  if (family.layers_without_rope != Feature::never) {
    json["no_rope_layers"] = Json::array();
    for (std::int64_t i = 0; i < config.num_layers; ++i)
      json["no_rope_layers"].push_back(config.rotates(static_cast<std::size_t>(i)) ? 1 : 0);
  }
  // transformers' Phi-3 takes this key for the one in rope_parameters.
  if (const auto* longrope = config.rope_scaling.get_if<model::LongRopeConfig>();
      longrope != nullptr && family.fused_projections != Feature::never)
    json["original_max_position_embeddings"] = longrope->original_max_position_embeddings;
  add_windows(json, config, family);
}

}  // namespace

Json llama_structure(const model::LlamaConfig& config, const ModelInfo& facts, const model::LlamaFamily& family) {
  Json json = {{"model_type", family.type},
               {"vocab_size", facts.vocab_size},
               {"hidden_size", config.hidden_size},
               {"num_hidden_layers", config.num_layers},
               {"num_attention_heads", config.num_heads},
               {"num_key_value_heads", config.key_value_heads()},
               {"head_dim", config.size_of_head()},
               {"intermediate_size", config.inner_size()},
               {family.activation_key, config.activation == model::GateActivation::silu ? "silu" : "gelu_pytorch_tanh"},
               {"max_position_embeddings", config.max_position_embeddings},
               {"rms_norm_eps", config.rms_norm_epsilon},
               {"tie_word_embeddings", config.tie_embeddings}};
  add_features(json, config, family);
  json["rope_parameters"] = rope_parameters(config, family);
  return json;
}

const model::LlamaFamily& published_family(const model::LlamaConfig& config) {
  if (const model::LlamaFamily* family = model::family_with(config)) return *family;
  const model::LlamaFamily& closest = model::closest_family(config);
  throw core::Error("transformers has no network like this one: " + std::string(closest.type) +
                    " is the closest, and differs in " + core::list_words(model::obstacles(closest, config), "and"))
      .hint("--format safetensors");
}

namespace {

Json structure(const model::LlamaConfig& config, const ModelInfo& facts, std::string_view) {
  return llama_structure(config, facts, published_family(config));
}

Json structure(const model::T5Config& config, const ModelInfo& facts, std::string_view) {
  return {{"model_type", *model::T5Config::traits.transformers_type},
          {"vocab_size", facts.vocab_size},
          {"d_model", config.hidden_size},
          {"d_kv", config.size_of_head()},
          {"d_ff", config.intermediate_size},
          {"num_layers", config.num_layers},
          {"num_decoder_layers", config.decoder_layers()},
          {"num_heads", config.num_heads},
          {"relative_attention_num_buckets", config.relative_attention_num_buckets},
          {"relative_attention_max_distance", config.relative_attention_max_distance},
          {"layer_norm_epsilon", config.layer_norm_epsilon},
          {"feed_forward_proj", config.feed_forward_proj == model::T5FeedForward::relu ? "relu" : "gated-gelu"},
          {"tie_word_embeddings", config.tie_embeddings}};
}

Json structure(const model::VitConfig& config, const ModelInfo& facts, std::string_view model_type) {
  return vit_structure(config, facts, vit_family(model_type, config));
}

}  // namespace

Json structure_of(const model::NetworkConfig& network, const ModelInfo& facts, std::string_view model_type) {
  return network.visit([&]<class Network>(const Network& config) -> Json {
    if constexpr (Network::traits.transformers_type.value.empty())
      return Json::object();
    else
      return structure(config, facts, model_type);
  });
}

}  // namespace trainctl::pretrained
