#include "pretrained/hugging_face_config.h"

namespace trainctl::pretrained {
namespace {

using Json = nlohmann::ordered_json;

Json structure(const model::BertConfig& config, const ModelInfo& facts) {
  return {{"model_type", *model::BertConfig::traits.transformers_type},
          {"vocab_size", facts.vocab_size},
          {"hidden_size", config.hidden_size},
          {"num_hidden_layers", config.num_layers},
          {"num_attention_heads", config.num_heads},
          {"intermediate_size", config.intermediate_size},
          {"hidden_act", "gelu"},
          {"max_position_embeddings", config.max_position_embeddings},
          {"type_vocab_size", config.type_vocab_size},
          {"layer_norm_eps", config.layer_norm_epsilon}};
}

Json structure(const model::Gpt2Config& config, const ModelInfo& facts) {
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

Json structure(const model::LlamaConfig& config, const ModelInfo& facts) {
  Json rope = config.rope_scaling.visit([](const auto& one) { return scaling(one); });
  rope["rope_theta"] = config.rope_theta;
  return {{"model_type", *model::LlamaConfig::traits.transformers_type},
          {"vocab_size", facts.vocab_size},
          {"hidden_size", config.hidden_size},
          {"num_hidden_layers", config.num_layers},
          {"num_attention_heads", config.num_heads},
          {"num_key_value_heads", config.key_value_heads()},
          {"head_dim", config.size_of_head()},
          {"intermediate_size", config.inner_size()},
          {"hidden_act", "silu"},
          {"max_position_embeddings", config.max_position_embeddings},
          {"rms_norm_eps", config.rms_norm_epsilon},
          {"tie_word_embeddings", config.tie_embeddings},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"rope_parameters", std::move(rope)}};
}

/// Returns one side for square images, else [height, width], as transformers takes them.
Json image_size(const ModelInfo& facts) {
  const std::int64_t height = facts.input_shape[1];
  const std::int64_t width = facts.input_shape[2];
  return height == width ? Json(height) : Json({height, width});
}

Json structure(const model::VitConfig& config, const ModelInfo& facts) {
  return {{"model_type", *model::VitConfig::traits.transformers_type},
          {"hidden_size", config.hidden_size},
          {"num_hidden_layers", config.num_layers},
          {"num_attention_heads", config.num_heads},
          {"intermediate_size", config.intermediate_size},
          {"hidden_act", "gelu"},
          {"layer_norm_eps", config.layer_norm_epsilon},
          {"image_size", image_size(facts)},
          {"patch_size", config.patch_size},
          {"num_channels", facts.input_shape[0]},
          {"qkv_bias", true}};
}

}  // namespace

Json structure_of(const model::NetworkConfig& network, const ModelInfo& facts) {
  return network.visit([&]<class Network>(const Network& config) -> Json {
    if constexpr (Network::traits.transformers_type.value.empty())
      return Json::object();
    else
      return structure(config, facts);
  });
}

}  // namespace trainctl::pretrained
