// Every key of the configuration classes of transformers 5.17, by family: what it changes here.
#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <nlohmann/json.hpp>

#include "experiment/published_keys.h"

namespace trainctl::experiment::transformers_keys_test {
namespace {

using Json = nlohmann::json;

struct Family {
  std::string type;
  std::string taken;    // keys that become keys of `model`, each with another value than the default
  std::string refused;  // keys that have one value here, each with another one
  std::string others;   // keys without effect, alone, on what the network computes
};

const Family
    kFamilies[] =
        {
            {"gpt2",
             R"({"vocab_size": 77, "n_positions": 77, "n_embd": 96, "n_layer": 3, "n_head": 6, "n_inner": 77, "attn_pdrop": 0.25, "layer_norm_epsilon": 0.001})",
             R"({"activation_function": "relu", "scale_attn_weights": false, "scale_attn_by_inverse_layer_idx": true, "add_cross_attention": true, "tie_word_embeddings": false, "resid_pdrop": 0.25, "embd_pdrop": 0.25})",
             R"({"use_cache": false, "bos_token_id": 5, "eos_token_id": 6, "initializer_range": 0.5, "pad_token_id": 7, "summary_type": "mean", "summary_use_proj": false, "summary_activation": "tanh", "summary_proj_to_labels": false, "summary_first_dropout": 0.5, "reorder_and_upcast_attn": true})"},
            {"bert",
             R"({"vocab_size": 77, "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 77, "hidden_dropout_prob": 0.25, "attention_probs_dropout_prob": 0.25, "max_position_embeddings": 77, "type_vocab_size": 3, "layer_norm_eps": 0.001, "pad_token_id": 7, "classifier_dropout": 0.25})",
             R"({"hidden_act": "relu", "is_decoder": true, "add_cross_attention": true, "tie_word_embeddings": false, "position_embedding_type": "relative_key"})",
             R"({"use_cache": false, "bos_token_id": 5, "eos_token_id": 6, "initializer_range": 0.5})"},
            {"roberta",
             R"({"vocab_size": 77, "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 77, "hidden_dropout_prob": 0.25, "attention_probs_dropout_prob": 0.25, "max_position_embeddings": 77, "type_vocab_size": 3, "layer_norm_eps": 0.001, "pad_token_id": 7, "classifier_dropout": 0.25})",
             R"({"hidden_act": "relu", "is_decoder": true, "add_cross_attention": true, "tie_word_embeddings": false, "position_embedding_type": "relative_key"})",
             R"({"use_cache": false, "bos_token_id": 5, "eos_token_id": 6, "initializer_range": 0.5})"},
            {"electra",
             R"({"vocab_size": 77, "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 77, "hidden_dropout_prob": 0.25, "attention_probs_dropout_prob": 0.25, "max_position_embeddings": 77, "type_vocab_size": 3, "layer_norm_eps": 0.001, "pad_token_id": 7, "classifier_dropout": 0.25, "embedding_size": 77})",
             R"({"hidden_act": "relu", "is_decoder": true, "add_cross_attention": true, "tie_word_embeddings": false, "position_embedding_type": "relative_key"})",
             R"({"use_cache": false, "bos_token_id": 5, "eos_token_id": 6, "initializer_range": 0.5, "summary_type": "mean", "summary_use_proj": false, "summary_activation": "relu", "summary_last_dropout": 0.5})"},
            {"distilbert",
             R"({"vocab_size": 77, "max_position_embeddings": 77, "n_layers": 3, "n_heads": 6, "dim": 96, "hidden_dim": 77, "dropout": 0.25, "attention_dropout": 0.25, "seq_classif_dropout": 0.25, "pad_token_id": 7})",
             R"({"activation": "relu", "tie_word_embeddings": false})",
             R"({"bos_token_id": 5, "eos_token_id": 6, "initializer_range": 0.5, "qa_dropout": 0.5, "sinusoidal_pos_embds": true})"},
            {"t5",
             R"({"vocab_size": 77, "d_model": 96, "d_kv": 32, "d_ff": 77, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 6, "relative_attention_num_buckets": 16, "relative_attention_max_distance": 77, "dropout_rate": 0.25, "layer_norm_epsilon": 0.001, "tie_word_embeddings": false, "scale_decoder_outputs": false})",
             R"({"feed_forward_proj": "gated-silu", "dense_act_fn": "silu", "is_gated_act": true, "is_encoder_decoder": false})",
             R"({"use_cache": false, "pad_token_id": 7, "eos_token_id": 6, "initializer_factor": 0.5, "classifier_dropout": 0.5, "is_decoder": true})"},
            {"vit",
             R"({"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 77, "hidden_act": "quick_gelu", "hidden_dropout_prob": 0.25, "attention_probs_dropout_prob": 0.25, "layer_norm_eps": 0.001, "patch_size": 8})",
             R"({"qkv_bias": false})",
             R"({"initializer_range": 0.5, "image_size": 96, "num_channels": 1, "encoder_stride": 8, "pooler_output_size": 77, "pooler_act": "relu"})"},
            {"deit",
             R"({"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 77, "hidden_act": "quick_gelu", "hidden_dropout_prob": 0.25, "attention_probs_dropout_prob": 0.25, "layer_norm_eps": 0.001, "patch_size": 8})",
             R"({"qkv_bias": false})",
             R"({"initializer_range": 0.5, "image_size": 96, "num_channels": 1, "encoder_stride": 8, "pooler_output_size": 77, "pooler_act": "relu"})"},
            {"llama",
             R"({"vocab_size": 77, "pad_token_id": 7, "hidden_size": 128, "intermediate_size": 77, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 77, "rms_norm_eps": 0.001, "tie_word_embeddings": true, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}, "attention_dropout": 0.25, "head_dim": 32, "attention_bias": true, "mlp_bias": true})",
             R"({"hidden_act": "relu", "partial_rotary_factor": 0.5})",
             R"({"use_cache": false, "bos_token_id": 5, "eos_token_id": 6, "initializer_range": 0.5, "pretraining_tp": 2})"},
            {"mistral",
             R"({"vocab_size": 77, "pad_token_id": 7, "hidden_size": 128, "intermediate_size": 77, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 77, "rms_norm_eps": 0.001, "tie_word_embeddings": true, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}, "attention_dropout": 0.25, "head_dim": 32, "sliding_window": 7})",
             R"({"hidden_act": "relu", "partial_rotary_factor": 0.5})",
             R"({"use_cache": false, "bos_token_id": 5, "eos_token_id": 6, "initializer_range": 0.5})"},
            {"gemma",
             R"({"vocab_size": 77, "pad_token_id": 7, "hidden_size": 128, "intermediate_size": 77, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 77, "rms_norm_eps": 0.001, "tie_word_embeddings": false, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}, "attention_dropout": 0.25, "head_dim": 32, "attention_bias": true, "hidden_act": "silu"})",
             R"({"use_bidirectional_attention": true, "partial_rotary_factor": 0.5})",
             R"({"use_cache": false, "bos_token_id": 5, "eos_token_id": 6, "initializer_range": 0.5})"},
            {"gemma2",
             R"({"vocab_size": 77, "pad_token_id": 7, "hidden_size": 128, "intermediate_size": 77, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 77, "rms_norm_eps": 0.001, "tie_word_embeddings": false, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}, "attention_dropout": 0.25, "head_dim": 32, "attention_bias": true, "hidden_activation": "silu", "query_pre_attn_scalar": 77, "sliding_window": 7, "layer_types": ["full_attention", "full_attention"], "final_logit_softcapping": 7.0, "attn_logit_softcapping": 7.0})",
             R"({"use_bidirectional_attention": true, "partial_rotary_factor": 0.5})",
             R"({"use_cache": false, "bos_token_id": 5, "eos_token_id": 6, "initializer_range": 0.5})"},
            {"gemma3_text",
             R"({"vocab_size": 77, "pad_token_id": 7, "hidden_size": 128, "intermediate_size": 77, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 77, "rms_norm_eps": 0.001, "tie_word_embeddings": false, "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 77.0}}, "attention_dropout": 0.25, "head_dim": 32, "attention_bias": true, "hidden_activation": "silu", "query_pre_attn_scalar": 77, "sliding_window": 7, "layer_types": ["full_attention", "sliding_attention"], "final_logit_softcapping": 7.0})",
             R"({"use_bidirectional_attention": true, "partial_rotary_factor": 0.5, "attn_logit_softcapping": 7.0})",
             R"({"use_cache": false, "bos_token_id": 5, "eos_token_id": 6, "initializer_range": 0.5, "_sliding_window_pattern": 2})"},
            {"phi3", R"({"vocab_size": 77, "pad_token_id": 7, "hidden_size": 128, "intermediate_size": 77, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 77, "rms_norm_eps": 0.001, "tie_word_embeddings": true, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}, "attention_dropout": 0.25, "head_dim": 32, "sliding_window": 7})", R"({"hidden_act": "relu", "resid_pdrop": 0.25, "embd_pdrop": 0.25, "partial_rotary_factor": 0.5})",
             R"({"use_cache": false, "bos_token_id": 5, "eos_token_id": 6, "initializer_range": 0.5, "original_max_position_embeddings": 77})"},
            {"qwen2",
             R"({"vocab_size": 77, "pad_token_id": 7, "hidden_size": 128, "intermediate_size": 77, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 77, "rms_norm_eps": 0.001, "tie_word_embeddings": true, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}, "attention_dropout": 0.25, "head_dim": 32})",
             R"({"hidden_act": "relu", "partial_rotary_factor": 0.5})",
             R"({"use_cache": false, "bos_token_id": 5, "eos_token_id": 6, "initializer_range": 0.5, "max_window_layers": 1, "sliding_window": 7, "layer_types": ["full_attention", "full_attention"]})"},
            {"qwen3",
             R"({"vocab_size": 77, "pad_token_id": 7, "hidden_size": 128, "intermediate_size": 77, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 77, "rms_norm_eps": 0.001, "tie_word_embeddings": true, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}, "attention_dropout": 0.25, "head_dim": 32, "attention_bias": true})",
             R"({"hidden_act": "relu", "partial_rotary_factor": 0.5})",
             R"({"use_cache": false, "bos_token_id": 5, "eos_token_id": 6, "initializer_range": 0.5, "max_window_layers": 1, "sliding_window": 7, "layer_types": ["full_attention", "full_attention"]})"},
            {"smollm3",
             R"({"vocab_size": 77, "pad_token_id": 7, "hidden_size": 128, "intermediate_size": 77, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 77, "rms_norm_eps": 0.001, "tie_word_embeddings": false, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}, "attention_dropout": 0.25, "head_dim": 32, "attention_bias": true, "mlp_bias": true, "no_rope_layers": [1, 0], "no_rope_layer_interval": 2})",
             R"({"hidden_act": "relu", "partial_rotary_factor": 0.5})",
             R"({"use_cache": false, "bos_token_id": 5, "eos_token_id": 6, "initializer_range": 0.5, "sliding_window": 7, "layer_types": ["full_attention", "full_attention"]})"},
};

/// Keys of every configuration, without effect.
const std::string kOfAll =
    R"({"output_hidden_states": true, "return_dict": false, "dtype": "float16", "chunk_size_feed_forward": 2, "problem_type": "regression", "_name_or_path": "x", "output_attentions": true, "transformers_version": "4.0.0"})";

/// Keys that base classes of the families read, and that have one value here.
Json refused_of_base_classes(const std::string& type) {
  Json refused = {{"per_layer_config", {{"0", {{"hidden_act", "relu"}}}}}};
  const std::string encoders[] = {"bert", "roberta", "electra", "distilbert", "vit", "deit"};
  if (std::ranges::find(encoders, type) == std::end(encoders)) refused["is_causal"] = false;
  return refused;
}

/// The keys of `model` and their values, without the names that they have in the file.
Json model_keys(const PublishedKeys& keys) {
  Json json = Json::object();
  for (const PublishedKey& key : keys.keys)
    if (!json.contains(key.ours)) json[key.ours] = key.value;
  return json;
}

PublishedKeys keys_with(const Json& base, const std::string& key, const Json& value) {
  Json config = base;
  config[key] = value;
  const auto keys = published_keys(config);
  REQUIRE(keys);
  return *keys;
}

}  // namespace

TEST_CASE("each key of transformers' classes is taken, refused, or without effect", "[experiment]") {
  for (const Family& family : kFamilies) {
    INFO(family.type);
    const Json taken = Json::parse(family.taken);
    // By the class's own name: the common one goes before it.
    const char* const own_names[] = {"n_layer", "n_layers", "num_layers", "num_hidden_layers"};
    const auto num_layers = std::ranges::find_if(own_names, [&](const char* name) { return taken.contains(name); });
    const Json base = {{"model_type", family.type},
                       {num_layers == std::end(own_names) ? "num_hidden_layers" : *num_layers, 2}};
    const auto usual = published_keys(base);
    REQUIRE(usual);
    CHECK(usual->refused.empty());
    for (const auto& [key, value] : taken.items()) {
      INFO(key);
      const PublishedKeys keys = keys_with(base, key, value);
      CHECK(keys.refused.empty());
      CHECK(model_keys(keys) != model_keys(*usual));
    }
    Json refused = Json::parse(family.refused);
    refused.update(refused_of_base_classes(family.type));
    for (const auto& [key, value] : refused.items()) {
      INFO(key);
      const PublishedKeys keys = keys_with(base, key, value);
      REQUIRE(keys.refused.size() == 1);
      CHECK(keys.refused.front().key == key);
    }
    Json others = Json::parse(family.others);
    others.update(Json::parse(kOfAll));
    for (const auto& [key, value] : others.items()) {
      INFO(key);
      const PublishedKeys keys = keys_with(base, key, value);
      CHECK(keys.refused.empty());
      CHECK(model_keys(keys) == model_keys(*usual));
    }
  }
}

TEST_CASE("an alternative name of a key goes before the class's own, as in transformers", "[experiment][regression]") {
  const auto heads = [](const Json& config) {
    const auto keys = published_keys(config);
    REQUIRE(keys);
    return model_keys(*keys)["num_heads"];
  };
  CHECK(heads({{"model_type", "distilbert"}, {"num_attention_heads", 2}}) == 2);
  CHECK(heads({{"model_type", "distilbert"}, {"n_heads", 4}, {"num_attention_heads", 2}}) == 2);
  CHECK(heads({{"model_type", "gpt2"}, {"n_head", 4}, {"num_attention_heads", 2}}) == 2);
  CHECK(heads({{"model_type", "t5"}, {"num_heads", 4}, {"num_attention_heads", 2}}) == 2);
  CHECK(heads({{"model_type", "bert"}, {"n_heads", 4}, {"num_attention_heads", 2}}) == 2);
  const auto t5 = published_keys({{"model_type", "t5"}, {"head_dim", 8}});
  CHECK((t5 && model_keys(*t5)["head_size"] == 8));
}

}  // namespace trainctl::experiment::transformers_keys_test
