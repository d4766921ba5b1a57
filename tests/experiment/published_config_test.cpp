#include "experiment/published_config.h"

#include <catch2/catch.hpp>

#include "config/emit.h"
#include "core/error.h"
#include "experiment/load.h"
#include "support/temporary_directory.h"

using namespace trainctl;
using namespace trainctl::experiment;
using testing::TemporaryDirectory;

namespace {

const std::string kMiniLm = R"({
  "architectures": ["BertModel"],
  "model_type": "bert",
  "hidden_size": 384,
  "num_hidden_layers": 6,
  "num_attention_heads": 12,
  "intermediate_size": 1536,
  "max_position_embeddings": 512,
  "vocab_size": 30522,
  "hidden_dropout_prob": 0.2,
  "layer_norm_eps": 1e-12,
  "pad_token_id": 0
})";

/// An experiment that starts from DIR, with other keys of its model.
std::filesystem::path experiment_from(
    const TemporaryDirectory& folder, const std::string& config_json, const std::string& keys = "",
    const std::string& dataset = "{kind: synthetic_tokens, mask_probability: 0.1, seq_len: 16, vocab_size: 100}",
    const std::string& task = "masked_lm") {
  folder.write("DIR/config.json", config_json);
  return folder.write("exp.yaml", "name: fine-tuned\ndataset: " + dataset + "\nmodel: {init_from: " +
                                      (folder / "DIR").string() + keys + "}\ntask: " + task + "\ntrain: {steps: 4}\n");
}

const std::string kImages = "{kind: synthetic_images, height: 32, width: 32}";

template <class Network>
Network network_of(const std::filesystem::path& path) {
  const LoadedExperiment loaded = load_experiment(path);
  const Network* network = loaded.experiment.model.network.get_if<Network>();
  REQUIRE(network != nullptr);
  return *network;
}

std::string failure(const std::filesystem::path& path) {
  try {
    load_experiment(path);
  } catch (const core::ConfigError& error) {
    REQUIRE(error.problems().size() == 1);
    return error.problems().front().text();
  }
  return "";
}

}  // namespace

TEST_CASE("a directory of weights gives the network's kind and sizes, with their lines as origins", "[experiment]") {
  const TemporaryDirectory folder;
  const LoadedExperiment loaded = load_experiment(experiment_from(folder, kMiniLm));
  const auto* bert = loaded.experiment.model.network.get_if<model::BertConfig>();
  REQUIRE(bert != nullptr);
  CHECK(bert->hidden_size == 384);
  CHECK(bert->num_layers == 6);
  CHECK(bert->intermediate_size == 1536);
  CHECK(bert->vocab_size.value == 30522);
  CHECK(bert->dropout == 0.2);
  CHECK(bert->attention_dropout == 0.1);
  const std::string shown = config::emit(loaded.node, config::Comments::origins);
  const std::string file = (folder / "DIR/config.json").string();
  CHECK(shown.find("  kind: bert  # " + file + ":3") != std::string::npos);
  CHECK(shown.find("  hidden_size: 384  # " + file + ":4") != std::string::npos);
  CHECK(shown.find("  attention_dropout: 0.1  # default") != std::string::npos);

  const auto again = folder.write("again.yaml", loaded.resolved_yaml);
  std::filesystem::remove(folder / "DIR/config.json");
  CHECK(load_experiment(again).flat == loaded.flat);
}

TEST_CASE("keys that the user writes stay, and another kind takes nothing of config.json", "[experiment]") {
  const TemporaryDirectory folder;
  CHECK(network_of<model::BertConfig>(experiment_from(folder, kMiniLm, ", dropout: 0")).dropout == 0);
  CHECK(network_of<model::BertConfig>(experiment_from(folder, kMiniLm, ", kind: bert, hidden_size: 768")).hidden_size ==
        768);
  const auto other = experiment_from(folder, kMiniLm, ", kind: gpt2",
                                     "{kind: synthetic_tokens, seq_len: 16, vocab_size: 100}", "causal_lm");
  CHECK(network_of<model::Gpt2Config>(other).hidden_size == 768);
}

TEST_CASE("each published kind gives its sizes", "[experiment]") {
  const TemporaryDirectory folder;
  const std::string tokens = "{kind: synthetic_tokens, seq_len: 16, vocab_size: 100}";
  const auto gpt2 = network_of<model::Gpt2Config>(
      experiment_from(folder, R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 3, "n_head": 4, "n_inner": null,
                                  "n_positions": 256, "vocab_size": 1000, "resid_pdrop": 0.3})",
                      "", tokens, "causal_lm"));
  CHECK((gpt2.hidden_size == 64 && gpt2.num_layers == 3 && gpt2.num_heads == 4 && gpt2.intermediate_size.is_auto()));
  CHECK((gpt2.max_position_embeddings == 256 && gpt2.vocab_size.value == 1000 && gpt2.dropout == 0.3));

  const std::string llama_json =
      R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96, "max_position_embeddings": 4096, "vocab_size": 1000,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": true, )";
  const auto llama = network_of<model::LlamaConfig>(experiment_from(
      folder,
      llama_json +
          R"("rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                      "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})",
      "", tokens, "causal_lm"));
  CHECK((llama.key_value_heads() == 2 && llama.tie_embeddings && llama.rope_theta == 500000));
  REQUIRE(llama.rope_scaling.get_if<model::Llama3RopeConfig>() != nullptr);
  CHECK(llama.rope_scaling.get_if<model::Llama3RopeConfig>()->factor == 32);
  const auto plain = network_of<model::LlamaConfig>(
      experiment_from(folder, llama_json + R"("rope_parameters": {"rope_type": "default", "rope_theta": 20000.0}})", "",
                      tokens, "causal_lm"));
  CHECK((plain.rope_theta == 20000 && plain.rope_scaling.kind() == "none"));

  const auto vit = network_of<model::VitConfig>(experiment_from(
      folder, R"({"model_type": "vit", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                                  "intermediate_size": 128, "patch_size": 8, "image_size": 32, "layer_norm_eps": 1e-12})",
      "", kImages, "classification"));
  CHECK((vit.hidden_size == 64 && vit.patch_size == 8 && vit.layer_norm_epsilon == 1e-12));
}

TEST_CASE("timm's config.json gives the kind by its architecture", "[experiment]") {
  const TemporaryDirectory folder;
  const auto vit = network_of<model::VitConfig>(experiment_from(
      folder, R"({"architecture": "vit_tiny_patch16_224", "num_features": 192, "global_pool": "token"})", "", kImages,
      "classification"));
  CHECK((vit.hidden_size == 192 && vit.num_heads == 3 && vit.intermediate_size == 768 && vit.patch_size == 16));
  const auto given = network_of<model::VitConfig>(experiment_from(
      folder, R"({"architecture": "vit_base_patch16_224", "model_args": {"embed_dim": 32, "depth": 2, "num_heads": 4,
                  "mlp_ratio": 1.5, "patch_size": 4, "class_token": false, "global_pool": "avg"}})",
      "", kImages, "classification"));
  CHECK((given.hidden_size == 32 && given.num_layers == 2 && given.intermediate_size == 48 && given.patch_size == 4));
  CHECK((!given.class_token && given.pool == model::VitPool::avg));
  network_of<model::ResNetConfig<50>>(
      experiment_from(folder, R"({"architecture": "resnet50", "num_classes": 1000})", "", kImages, "classification"));
}

TEST_CASE("a kind that follows from nothing is asked for, with the reason", "[experiment]") {
  const TemporaryDirectory folder;
  const auto with = [&](const std::string& init_from) {
    return folder.write(
        "exp.yaml", "name: x\ndataset: " + kImages + "\nmodel: {init_from: " + init_from + "}\ntrain: {steps: 4}\n");
  };
  const std::string weights = folder.write("resnet18.pth", "x").string();
  const std::string place = (folder / "exp.yaml").string() + ":3:20: model.kind: ";
  CHECK(failure(with(weights)) == place + "the kind of the network follows from a directory's config.json, and " +
                                      weights + " is a file of weights alone; set model.kind and its sizes");
  CHECK(failure(with(folder.path().string())).find("there is no config.json in") != std::string::npos);
  CHECK(failure(with("bert-base-uncased")).find("`hf download bert-base-uncased --local-dir bert-base-uncased`") !=
        std::string::npos);
  CHECK(failure(with("null")).find("names no weights") != std::string::npos);
  CHECK(failure(experiment_from(folder, R"({"model_type": "roberta"})")).find("model_type \"roberta\"") !=
        std::string::npos);
  CHECK(failure(experiment_from(folder, R"({"architecture": "vit_giant_patch14_clip_224"})"))
            .find("architecture \"vit_giant") != std::string::npos);
  CHECK(failure(experiment_from(folder, "[1")).find("config.json is no JSON object") != std::string::npos);
  CHECK(failure(experiment_from(folder, R"({"model_type": "bert", "hidden_size": "wide"})"))
            .find("config.json:1:24: model.hidden_size: ") != std::string::npos);
}
