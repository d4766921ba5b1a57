// What config.json of each family of llama gives, where keys are left out too, and what of it is refused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "core/error.h"
#include "experiment/load.h"
#include "model/llama_json.h"
#include "support/temporary_directory.h"

namespace trainctl::experiment::llama_families_test {

using namespace trainctl;
using namespace trainctl::experiment;
using testing::TemporaryDirectory;

namespace {

using model::LlamaConfig;

std::filesystem::path experiment_from(const TemporaryDirectory& folder, const std::string& keys,
                                      const std::string& more = "") {
  folder.write("DIR/config.json", R"({"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 6,
"num_attention_heads": 4, "intermediate_size": 96, "max_position_embeddings": 4096,
)" + keys + "}");
  return folder.write("exp.yaml",
                      "name: x\ndataset: {kind: synthetic_tokens, seq_len: 16, vocab_size: 100}\ntask: causal_lm\n"
                      "model: {init_from: " +
                          (folder / "DIR").string() + "}\ntrain: {steps: 4}\n" + more);
}

LlamaConfig network_of(const std::string& keys) {
  const TemporaryDirectory folder;
  const LoadedExperiment loaded = load_experiment(experiment_from(folder, keys));
  const auto* network = loaded.experiment.model.network.get_if<LlamaConfig>();
  REQUIRE(network != nullptr);
  return *network;
}

std::string failure(const std::string& keys, const std::string& more = "") {
  const TemporaryDirectory folder;
  try {
    load_experiment(experiment_from(folder, keys, more));
  } catch (const core::ConfigError& error) {
    REQUIRE(error.problems().size() == 1);
    const std::string text = error.problems().front().text();
    const std::size_t place = text.find("config.json");
    return place == std::string::npos ? text : text.substr(place);
  }
  return "";
}

}  // namespace

TEST_CASE("keys that a family's config.json leaves out are transformers' defaults", "[experiment]") {
  using enum model::LayerType;
  using enum model::PositionType;
  const LlamaConfig mistral = network_of(R"("model_type": "mistral")");
  CHECK((mistral.sliding_window == 4096 && mistral.layer_types.empty() && mistral.key_value_heads() == 8));
  CHECK(!network_of(R"("model_type": "mistral", "sliding_window": null)").sliding_window);

  const LlamaConfig qwen2 = network_of(R"("model_type": "qwen2", "num_key_value_heads": 2, "sliding_window": 32768,
    "use_sliding_window": false, "max_window_layers": 4, "rope_theta": 1000000.0)");
  CHECK((qwen2.attention_bias == model::AttentionBias::qkv && !qwen2.sliding_window && qwen2.rope_theta == 1000000));
  const LlamaConfig sliding = network_of(R"("model_type": "qwen2", "num_key_value_heads": 2, "sliding_window": 8,
    "use_sliding_window": true, "max_window_layers": 3)");
  CHECK(sliding.sliding_window == 8);
  CHECK(sliding.layer_types == std::vector{full_attention, full_attention, full_attention, sliding_attention,
                                           sliding_attention, sliding_attention});

  const LlamaConfig qwen3 = network_of(R"("model_type": "qwen3", "num_key_value_heads": 2)");
  CHECK((qwen3.qk_norm && qwen3.size_of_head() == 128 && qwen3.attention_bias == model::AttentionBias::none));

  const LlamaConfig gemma2 = network_of(R"("model_type": "gemma2")");
  CHECK((gemma2.norm_unit_offset && gemma2.scale_embeddings && gemma2.tie_embeddings && !gemma2.qk_norm));
  CHECK((gemma2.norm_placement == model::NormPlacement::pre_and_post && gemma2.query_pre_attn_scalar == 256));
  CHECK((gemma2.attn_logit_softcapping == 50 && gemma2.final_logit_softcapping == 30));
  CHECK((gemma2.sliding_window == 4096 && gemma2.layer_types == std::vector{sliding_attention, full_attention}));
  CHECK(gemma2.activation == model::GateActivation::gelu_tanh);

  const LlamaConfig gemma3 = network_of(R"("model_type": "gemma3_text", "sliding_window": 512, "rope_theta": 1000000,
    "rope_local_base_freq": 10000, "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "sliding_window_pattern": 6)");
  CHECK((gemma3.rope_theta == 1000000 && gemma3.rope_local_theta == 10000 && gemma3.layer_types.size() == 6));
  CHECK((gemma3.rope_scaling.kind() == "linear" && gemma3.qk_norm && !gemma3.attn_logit_softcapping));

  const LlamaConfig phi3 = network_of(R"("model_type": "phi3", "rope_theta": 10000.0, "resid_pdrop": 0.0,
    "sliding_window": 2047, "original_max_position_embeddings": 4096, "rope_scaling": {"type": "su",
    "short_factor": [1, 1, 1, 1, 1, 1, 1, 1], "long_factor": [2, 2, 2, 2, 2, 2, 2, 2]})");
  CHECK((phi3.fused_projections && phi3.sliding_window == 2047 && phi3.rms_norm_epsilon == 1e-5));
  CHECK(phi3.rope_scaling.kind() == "longrope");

  const LlamaConfig smollm3 = network_of(R"("model_type": "smollm3", "no_rope_layer_interval": 3)");
  CHECK(smollm3.position_types == std::vector{rotary, rotary, none});
  CHECK((smollm3.rope_theta == 2000000 && smollm3.tie_embeddings && !smollm3.sliding_window));
}

TEST_CASE("the layers of a mistral with layer_types are a ministral's, as AutoConfig has it",
          "[experiment][regression]") {
  using enum model::LayerType;
  const std::string types = R"("layer_types": ["full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention"])";
  for (const std::string type : {"mistral", "ministral"}) {
    const std::string keys = R"("model_type": ")" + type + R"(", "sliding_window": 8, )";
    const LlamaConfig network = network_of(keys + types);
    CHECK((network.sliding_window == 8 && network.layer_types == std::vector{full_attention, sliding_attention}));
    CHECK(network_of(keys + R"("layer_types": null)").num_sliding() == 6);
  }
  CHECK(network_of(R"("model_type": "ministral")").num_sliding() == 6);
}

TEST_CASE("layer_types that transformers doesn't compute are refused", "[experiment][regression]") {
  const auto refuses = [](const std::string& keys, const std::string& layer_type) {
    std::string types;
    for (int i = 0; i < 6; ++i) types += (i == 0 ? "\"" : ", \"") + layer_type + "\"";
    const std::string text = failure(keys + R"(, "layer_types": [)" + types + "]");
    INFO(keys << " of " << layer_type << " gives " << text);
    return text.find("model.init_from: layer_types [") != std::string::npos;
  };
  // Layers of these have one type, whatever layer_types says.
  for (const std::string type : {"llama", "gemma"}) {
    CHECK(refuses("\"model_type\": \"" + type + "\"", "sliding_attention"));
    CHECK(!refuses("\"model_type\": \"" + type + "\"", "full_attention"));
  }
  CHECK(refuses(R"("model_type": "phi3")", "sliding_attention"));
  CHECK(refuses(R"("model_type": "phi3", "sliding_window": 8)", "full_attention"));
  CHECK(!refuses(R"("model_type": "phi3", "sliding_window": 8)", "sliding_attention"));
  // transformers' SmolLM3 slides in some of its attentions and not in others, and the others raise.
  CHECK(refuses(R"("model_type": "smollm3", "sliding_window": 8)", "sliding_attention"));
  CHECK(refuses(R"("model_type": "qwen3", "num_key_value_heads": 2, "sliding_window": 8)", "sliding_attention"));
}

TEST_CASE("the pretraining's length of a rotary scaling is the one that transformers takes",
          "[experiment][regression]") {
  const auto yarn = [](const std::string& keys) {
    const LlamaConfig config = network_of(keys);
    REQUIRE(config.rope_scaling.get_if<model::YarnRopeConfig>() != nullptr);
    return *config.rope_scaling.get_if<model::YarnRopeConfig>();
  };
  const std::string scaling = R"("model_type": "llama", "rope_scaling": {"rope_type": "yarn", "factor": 4.0)";
  CHECK(yarn(scaling + "}").original_max_position_embeddings == 4096);
  CHECK(yarn(scaling + R"(, "original_max_position_embeddings": 512})").original_max_position_embeddings == 512);
  CHECK(yarn(scaling + R"(, "original_max_position_embeddings": 512}, "original_max_position_embeddings": 64)")
            .original_max_position_embeddings == 64);
  CHECK(yarn(R"("model_type": "llama", "rope_scaling": {"rope_type": "yarn", "factor": null,
    "original_max_position_embeddings": 512})")
            .factor == 8);
  const LlamaConfig llama3 = network_of(R"("model_type": "llama", "rope_scaling": {"rope_type": "llama3",
    "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0})");
  CHECK(llama3.rope_scaling.get_if<model::Llama3RopeConfig>()->original_max_position_embeddings == 4096);
  const LlamaConfig phi3 = network_of(R"("model_type": "phi3", "rope_scaling": {"type": "longrope",
    "original_max_position_embeddings": 32, "short_factor": [1, 1, 1, 1, 1, 1, 1, 1],
    "long_factor": [2, 2, 2, 2, 2, 2, 2, 2]})");
  CHECK(phi3.rope_scaling.get_if<model::LongRopeConfig>()->original_max_position_embeddings == 4096);
}

TEST_CASE("keys of a rotary scaling that transformers doesn't read change nothing", "[experiment][regression]") {
  const auto scaling_of = [](const std::string& scaling) {
    return network_of(R"("model_type": "llama", "rope_scaling": )" + scaling).rope_scaling;
  };
  CHECK(scaling_of(R"({"type": "linear", "factor": 4.0, "finetuned": true, "original_max_position_embeddings": 64})")
            .get_if<model::LinearRopeConfig>()
            ->factor == 4);
  CHECK(scaling_of(R"({"type": "dynamic", "factor": 4.0, "alpha": 1000.0})").kind() == "dynamic");
  for (const std::string unset : {"null", "0"}) {
    const model::RopeScalingConfig scaling =
        scaling_of(R"({"type": "yarn", "factor": 4.0, "finetuned": true, "beta_fast": )" + unset +
                   R"(, "beta_slow": )" + unset + R"(, "mscale": 2.0, "mscale_all_dim": )" + unset + "}");
    const auto* const yarn = scaling.get_if<model::YarnRopeConfig>();
    REQUIRE(yarn != nullptr);
    CHECK((yarn->beta_fast == 32 && yarn->beta_slow == 1 && yarn->mscale == 2 && !yarn->mscale_all_dim));
  }
}

TEST_CASE("limits and scales that other families have are ignored, as in transformers", "[experiment][regression]") {
  const LlamaConfig llama =
      network_of(R"("model_type": "llama", "final_logit_softcapping": 2.0, "query_pre_attn_scalar": 24)");
  CHECK((!llama.final_logit_softcapping && !llama.query_pre_attn_scalar));
  CHECK(network_of(R"("model_type": "gemma3_text", "final_logit_softcapping": 2.0)").final_logit_softcapping == 2);
}

TEST_CASE("the token of padding is the one whose embedding transformers doesn't train", "[experiment][regression]") {
  const auto padding = [](const std::string& keys) { return network_of(keys).pad_token_id; };
  CHECK(padding(R"("model_type": "llama", "pad_token_id": 7)") == 7);
  CHECK(padding(R"("model_type": "llama", "pad_token_id": -1)") == 99);
  CHECK(!padding(R"("model_type": "llama")"));
  CHECK(padding(R"("model_type": "gemma2")") == 0);
  CHECK(padding(R"("model_type": "phi3")") == 32000);
  CHECK(padding(R"("model_type": "smollm3")") == 128004);
  CHECK(!padding(R"("model_type": "gemma", "pad_token_id": null)"));
}

TEST_CASE("layers beyond the last one of no_rope_layers are left out, as in transformers", "[experiment][regression]") {
  using enum model::PositionType;
  CHECK(network_of(R"("model_type": "smollm3", "no_rope_layers": [1, 1, 1, 1, 1, 0, 0, 0])").position_types ==
        std::vector{rotary, rotary, rotary, rotary, rotary, none});
}

TEST_CASE("null is refused where transformers' classes have no such value", "[experiment][regression]") {
  const auto refuses = [](const std::string& type, const std::string& key, const std::string& value = "null") {
    const std::string text = failure("\"model_type\": \"" + type + "\", \"" + key + "\": " + value);
    INFO(type << " " << key << " gives " << text);
    return text.find("model.init_from: " + key + " " + value + ": ") != std::string::npos;
  };
  for (const char* key : {"hidden_act", "rms_norm_eps", "tie_word_embeddings", "attention_dropout", "attention_bias",
                          "mlp_bias", "vocab_size"})
    CHECK(refuses("llama", key));
  for (const char* key : {"head_dim", "hidden_activation", "query_pre_attn_scalar", "sliding_window"})
    CHECK(refuses("gemma2", key));
  CHECK(refuses("llama", "attention_bias", "0"));
  CHECK(refuses("gpt2", "layer_norm_epsilon"));
  CHECK_FALSE(refuses("gpt2", "n_inner"));
  CHECK_FALSE(refuses("llama", "head_dim"));
  CHECK_FALSE(refuses("mistral", "attention_bias"));
  const TemporaryDirectory folder;
  const auto problems_of = [&]() -> std::vector<core::Problem> {
    try {
      load_experiment(experiment_from(folder, R"("model_type": "t5", "d_kv": null)"));
      return {};
    } catch (const core::ConfigError& error) {
      return error.problems();
    }
  };
  const std::vector<core::Problem> of_t5 = problems_of();  // the task, which is a decoder's, is another
  CHECK(std::any_of(of_t5.begin(), of_t5.end(), [](const core::Problem& problem) {
    return problem.text().find("model.init_from: d_kv null: ") != std::string::npos;
  }));
}

TEST_CASE("windows of a cache alone are refused", "[experiment][regression]") {
  const auto refuses = [](const std::string& type, const std::string& key, const std::string& more = "") {
    return failure("\"model_type\": \"" + type + "\", \"" + key + "\": 8" + more)
               .find("model.init_from: " + key + " 8: transformers' " + type) != std::string::npos;
  };
  CHECK(refuses("llama", "sliding_window"));
  CHECK(refuses("gemma", "sliding_window"));
  CHECK(refuses("llama", "attention_chunk_size"));
  CHECK(refuses("phi3", "attention_chunk_size"));
  const std::string full = R"("full_attention", "full_attention", "full_attention")";
  CHECK_FALSE(refuses("llama", "sliding_window", ", \"layer_types\": [" + full + ", " + full + "]"));
  CHECK_FALSE(refuses("qwen2", "sliding_window"));
  CHECK(failure(R"("model_type": "llama", "sliding_window": 4096)").empty());
}

TEST_CASE("windows that no layer has are as if the family had none", "[experiment][regression]") {
  const nlohmann::json config = {{"model_type", "qwen2"},      {"num_hidden_layers", 2},
                                 {"use_sliding_window", true}, {"max_position_embeddings", 64},
                                 {"sliding_window", 8},        {"max_window_layers", 28}};
  const model::LlamaFamily& qwen2 = *model::llama_family("qwen2");
  const nlohmann::json complete = model::complete_llama_json(config, qwen2);
  CHECK((complete["sliding_window"].is_null() && complete["use_sliding_window"] == false));
  nlohmann::json sliding = config;
  sliding["max_window_layers"] = 1;
  CHECK(model::complete_llama_json(sliding, qwen2)["use_sliding_window"] == true);
}

TEST_CASE("Gemma 3 alone has rotary positions by the types of layers, and merges both of their keys",
          "[experiment][regression]") {
  const auto gemma3 = [](const std::string& keys) {
    return network_of(R"("model_type": "gemma3_text", "sliding_window": 8, "sliding_window_pattern": 2, )" + keys);
  };
  const LlamaConfig merged = gemma3(R"("rope_scaling": {"rope_type": "linear", "factor": 4.0}, "rope_parameters": {
    "full_attention": {"rope_type": "default", "rope_theta": 500.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}})");
  CHECK((merged.rope_scaling.kind() == "linear" && merged.rope_theta == 500 && merged.rope_local_theta == 100));
  const LlamaConfig null = gemma3(R"("rope_parameters": {"sliding_attention": null,
    "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}})");
  CHECK((null.rope_scaling.kind() == "linear" && null.rope_theta == 500 && null.rope_local_theta == 10000));
  // transformers looks for truncate outside of the types.
  const LlamaConfig yarn = gemma3(R"("rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4.0,
    "truncate": false, "original_max_position_embeddings": 64}})");
  CHECK(yarn.rope_scaling.get_if<model::YarnRopeConfig>()->truncate);
  const LlamaConfig llama = network_of(R"("model_type": "llama", "rope_parameters": {"full_attention": {
    "rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}})");
  CHECK((llama.rope_scaling.kind() == "none" && llama.rope_theta == 10000));
  CHECK(!network_of(R"("model_type": "mistral", "rope_local_base_freq": 77.0)").rope_local_theta);
}

TEST_CASE("other names and null for what a network does are taken", "[experiment][regression]") {
  const LlamaConfig llama =
      network_of(R"("model_type": "llama", "hidden_act": "swish", "partial_rotary_factor": null)");
  CHECK(llama.activation == model::GateActivation::silu);
}

TEST_CASE("of rope_scaling and rope_parameters the older key counts alone", "[experiment][regression]") {
  const LlamaConfig both = network_of(R"("model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2.0},
    "rope_parameters": {"rope_type": "default", "rope_theta": 33.0})");
  CHECK((both.rope_scaling.kind() == "linear" && both.rope_theta == 10000));
  const LlamaConfig gemma2 = network_of(R"("model_type": "gemma2", "sliding_window_pattern": 3)");
  CHECK(gemma2.layer_types == std::vector{model::LayerType::sliding_attention, model::LayerType::full_attention});
}

TEST_CASE("the two rotary scalings of gemma3 are those that transformers takes", "[experiment][regression]") {
  const std::string gemma3 =
      R"("model_type": "gemma3_text", "sliding_window": 8, "original_max_position_embeddings": 64,
    "rope_parameters": {"full_attention": )";
  const std::string local = R"(, "sliding_attention": {"rope_type": "default", "rope_theta": 77.0}})";
  const LlamaConfig yarn = network_of(gemma3 + R"({"rope_type": "yarn", "factor": 4.0})" + local);
  REQUIRE(yarn.rope_scaling.get_if<model::YarnRopeConfig>() != nullptr);
  CHECK(yarn.rope_scaling.get_if<model::YarnRopeConfig>()->original_max_position_embeddings == 4096);
  CHECK(yarn.rope_local_theta == 77);
  const LlamaConfig both = network_of(gemma3 + R"({"rope_theta": 500.0})" + local +
                                      R"(, "rope_scaling": {"rope_type": "linear", "factor": 8.0})");
  CHECK((both.rope_scaling.kind() == "linear" && both.rope_theta == 500 && both.rope_local_theta == 77));
  const LlamaConfig older = network_of(R"("model_type": "gemma3_text", "sliding_window": 8,
    "rope_scaling": {"type": "linear", "factor": 8.0})");
  CHECK(older.rope_scaling.kind() == "none");
}

TEST_CASE("what no network here can do is refused by its key", "[experiment]") {
  CHECK(failure(R"("model_type": "llama", "hidden_act": "relu")")
            .find("model.init_from: hidden_act \"relu\": expected silu or gelu_pytorch_tanh") != std::string::npos);
  CHECK(failure(R"("model_type": "mistral", "attention_bias": true)")
            .starts_with("config.json:3:26: model.init_from: "
                         "attention_bias true: "));
  CHECK(failure(R"("model_type": "phi3", "partial_rotary_factor": 0.75)").find("partial_rotary_factor 0.75: ") !=
        std::string::npos);
  CHECK(failure(R"("model_type": "phi3", "resid_pdrop": 0.1)").find("resid_pdrop 0.1: ") != std::string::npos);
  CHECK(
      failure(R"("model_type": "gemma3_text", "attn_logit_softcapping": 50.0)").find("attn_logit_softcapping 50.0: ") !=
      std::string::npos);
  CHECK(failure(R"("model_type": "gemma3_text", "use_bidirectional_attention": true)").find("use_bidirectional_") !=
        std::string::npos);
  CHECK(failure(R"("model_type": "llama", "num_local_experts": 8)").find("num_local_experts 8: ") != std::string::npos);
  CHECK(failure(R"("model_type": "qwen3_moe")").find("has model_type \"qwen3_moe\"; expected a model_type of ") !=
        std::string::npos);
  CHECK(failure(R"("model_type": "qwen2", "use_sliding_window": true, "layer_types": ["chunked_attention",
    "full_attention", "full_attention", "full_attention", "full_attention", "full_attention"])")
            .find("layer_types [\"chunked_attention\",") != std::string::npos);
  CHECK(failure(R"("model_type": "gemma3_text", "sliding_window_pattern": "six")").find("of another type") !=
        std::string::npos);
}

TEST_CASE("rotary positions that transformers refuses are refused, and not guessed", "[experiment][regression]") {
  const auto refuses = [](const std::string& family, const std::string& key, const std::string& value,
                          const std::string& reason) {
    const std::string text = failure("\"model_type\": \"" + family + "\", \"" + key + "\": " + value);
    INFO(family << " " << key << " " << value << " gives " << text);
    return text.find("model.init_from: " + key + " {") != std::string::npos && text.find(reason) != std::string::npos;
  };
  for (const char* type : {"linear", "dynamic", "yarn"})
    CHECK(refuses("llama", "rope_parameters", "{\"rope_type\": \"" + std::string(type) + "\"}", "needs factor"));
  CHECK(refuses("qwen2", "rope_scaling", R"({"type": "linear"})", "rope_type linear needs factor"));
  CHECK(refuses("llama", "rope_scaling", R"({"rope_type": "llama3", "factor": 8.0, "high_freq_factor": 4.0})",
                "needs low_freq_factor"));
  CHECK(refuses("gemma3_text", "rope_parameters", R"({"full_attention": {"rope_type": "linear"}})", "needs factor"));
  CHECK(refuses("gemma3_text", "rope_parameters",
                R"({"full_attention": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": null}})",
                "needs original_max_position_embeddings"));
  CHECK(refuses("qwen3", "rope_parameters", R"({"full_attention": {"rope_theta": 77.0}})", "no full_attention"));
  CHECK(refuses("gemma3_text", "rope_parameters", R"({"rope_type": "default", "rope_theta": 77.0})",
                "one mapping for full_attention"));
  // Without the key of yarn's factor transformers stops, and null is the quotient of the two lengths.
  CHECK(failure(R"("model_type": "llama", "rope_scaling": {"rope_type": "yarn", "factor": null,
    "original_max_position_embeddings": 1024})")
            .empty());
}

TEST_CASE("counts and lists of layers that no network can have are refused by their keys", "[experiment][regression]") {
  const auto refuses = [](const std::string& family, const std::string& key, const std::string& value) {
    const std::string text = failure("\"model_type\": \"" + family + "\", \"" + key + "\": " + value);
    INFO(key << " " << value << " gives " << text);
    return text.find("model.init_from: " + key + " " + value + ": expected ") != std::string::npos;
  };
  CHECK(refuses("gemma3_text", "sliding_window_pattern", "0"));
  CHECK(refuses("gemma3_text", "sliding_window_pattern", "-1"));
  CHECK(refuses("smollm3", "no_rope_layer_interval", "0"));
  CHECK(refuses("smollm3", "no_rope_layers", "[]"));
  CHECK(refuses("smollm3", "no_rope_layers", "[1,0]"));
  CHECK(refuses("qwen2", "max_window_layers", "1.5"));
  CHECK(refuses("qwen3", "layer_types", "\"full_attention\""));
  CHECK(failure(R"("model_type": "smollm3", "num_hidden_layers": 2, "no_rope_layers": [true, false])")
            .find("no_rope_layers [true,false]: expected 1, or 0") != std::string::npos);
  CHECK(refuses("gemma2", "layer_types", "[]"));
  CHECK(refuses("gemma2", "layer_types", "[\"full_attention\"]"));
  // A number of layers that is too large is refused by itself, not as a number that the list lacks.
  const std::string many = failure(R"("model_type": "smollm3", "num_hidden_layers": 20000, "no_rope_layers": [1])");
  CHECK(many.find("num_hidden_layers 20000") == std::string::npos);
  CHECK(many.find("20000") != std::string::npos);
  CHECK(failure(R"("model_type": "llama", "rope_scaling": "linear")").find("of another type") != std::string::npos);
}

TEST_CASE("a list of layers is read in linear time, as the shortest pattern that repeats", "[experiment][regression]") {
  using enum model::LayerType;
  CHECK(network_of(R"("model_type": "gemma2", "layer_types": ["full_attention", "sliding_attention",
    "sliding_attention", "full_attention", "sliding_attention", "sliding_attention"])")
            .layer_types == std::vector{full_attention, sliding_attention, sliding_attention});
  CHECK(network_of(R"("model_type": "gemma2", "layer_types": ["full_attention", "full_attention",
    "sliding_attention", "full_attention", "full_attention", "full_attention"])")
            .layer_types.size() == 4);
  // As many comparisons as half the square of the length took minutes.
  std::string types = "\"sliding_attention\"";
  for (int i = 1; i < 300'000; ++i) types += i == 299'999 ? ",\"full_attention\"" : ",\"sliding_attention\"";
  const TemporaryDirectory folder;
  CHECK_THROWS_AS(
      load_experiment(experiment_from(folder, "\"model_type\": \"gemma2\", \"layer_types\": [" + types + "]")),
      core::ConfigError);
}

TEST_CASE("ranks that share sequences can't limit scores", "[experiment]") {
  const std::string text = failure(R"("model_type": "gemma2")", "distributed: {kind: ddp, context: 2}\n");
  CHECK(text.find("model.attn_logit_softcapping: ") != std::string::npos);
}

}  // namespace trainctl::experiment::llama_families_test
