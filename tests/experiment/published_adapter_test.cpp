// The keys of model.lora that peft's adapter_config.json gives.
#include "experiment/published_adapter.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "config/emit.h"
#include "core/error.h"
#include "experiment/load.h"
#include "support/temporary_directory.h"

namespace trainctl::experiment::published_adapter_test {

using namespace trainctl;
using namespace trainctl::experiment;
using testing::TemporaryDirectory;
using Names = std::vector<std::string>;

namespace {

const std::string kBert = R"({"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
  "intermediate_size": 48, "vocab_size": 61})";
const std::string kDistilBert = R"({"model_type": "distilbert", "dim": 32, "n_layers": 2, "n_heads": 4,
  "hidden_dim": 48, "vocab_size": 61})";
const std::string kVit = R"({"model_type": "vit", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
  "intermediate_size": 48, "image_size": 32, "patch_size": 4})";

/// Returns an adapter_config.json as peft writes it, with other keys behind its own.
std::string adapter_config(const std::string& targets, const std::string& more = "") {
  return "{\n  \"peft_type\": \"LORA\",\n  \"bias\": \"none\",\n  \"r\": 4,\n  \"lora_alpha\": 6,\n"
         "  \"lora_dropout\": 0.25,\n  \"use_dora\": false,\n  \"megatron_core\": \"megatron.core\",\n"
         "  \"peft_version\": \"0.21.2\",\n  \"alpha_pattern\": {},\n  \"target_modules\": " +
         targets + (more.empty() ? "" : ",\n  " + more) + "\n}";
}

/// An experiment that starts from BASE and ADAPTER, with other keys of model.lora.
std::filesystem::path experiment_with(const TemporaryDirectory& folder, const std::string& base,
                                      const std::string& adapter, const std::string& keys = "") {
  folder.write("BASE/config.json", base);
  folder.write("ADAPTER/adapter_config.json", adapter);
  const bool has_images = base == kVit;
  return folder.write(
      "exp.yaml",
      "name: adapted\ndataset: " +
          std::string(has_images ? "{kind: synthetic_images, height: 32, width: 32}"
                                 : "{kind: synthetic_tokens, mask_probability: 0.1, seq_len: 16, vocab_size: 61}") +
          "\nmodel: {init_from: " + (folder / "BASE").string() +
          ", lora: {init_from: " + (folder / "ADAPTER").string() + keys +
          "}}\ntask: " + (has_images ? "classification" : "masked_lm") + "\ntrain: {steps: 4}\n");
}

model::LoraConfig lora_of(const std::filesystem::path& path) {
  return load_experiment(path).experiment.model.lora.value();
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

TEST_CASE("a directory of adapters gives rank, alpha, dropout and layers, with their lines as origins",
          "[experiment]") {
  const TemporaryDirectory folder;
  const auto path = experiment_with(folder, kBert, adapter_config(R"(["query", "value"])"));
  const LoadedExperiment loaded = load_experiment(path);
  const model::LoraConfig& lora = loaded.experiment.model.lora.value();
  CHECK(lora.rank == 4);
  CHECK(lora.alpha == 6);
  CHECK(lora.dropout == 0.25);
  CHECK(lora.target_modules == Names{"query", "value"});
  CHECK(lora.modules_to_save == Names{});
  const std::string shown = config::emit(loaded.node, config::Comments::origins);
  CHECK(shown.find("rank: 4  # " + (folder / "ADAPTER/adapter_config.json").string() + ":4") != std::string::npos);

  const auto again = folder.write("again.yaml", loaded.resolved_yaml);
  std::filesystem::remove_all(folder / "ADAPTER");
  CHECK(lora_of(again).target_modules == Names{"query", "value"});
}

TEST_CASE("keys that the file gives stay, and alpha follows from its rank", "[experiment]") {
  const TemporaryDirectory folder;
  const model::LoraConfig lora = lora_of(
      experiment_with(folder, kBert, adapter_config(R"(["query"])"), ", rank: 8, dropout: 0, target_modules: [key]"));
  CHECK(lora.rank == 8);
  CHECK(lora.alpha == 12);
  CHECK(lora.dropout == 0);
  CHECK(lora.target_modules == Names{"key"});
  const model::LoraConfig stabilized =
      lora_of(experiment_with(folder, kBert, adapter_config(R"(["query"])", R"("use_rslora": true)")));
  CHECK(stabilized.rank == 4);
  CHECK(stabilized.alpha == 12);  // 6 / √4 × 4
}

TEST_CASE("layers of other families become those here", "[experiment]") {
  const TemporaryDirectory folder;
  const auto targets = [&](const std::string& base, const std::string& theirs) {
    return lora_of(experiment_with(folder, base, adapter_config(theirs))).target_modules;
  };
  CHECK(targets(kDistilBert, R"(["q_lin", "out_lin", "lin2"])") ==
        Names{"attention.self.query", "attention.output.dense", "*[0-9].output.dense"});
  CHECK(targets(kDistilBert, R"(["distilbert.transformer.layer.1.ffn.lin2"])") ==
        Names{"bert.encoder.layer.1.output.dense"});
  CHECK(targets(kVit, R"(["o_proj", "vit.layers.0.mlp.fc1"])") == Names{"attn.proj", "blocks.0.mlp.fc1"});
  CHECK(targets(kVit, R"(["output.dense"])") == Names{"attn.proj", "mlp.fc2"});
  CHECK(targets(kVit, R"(["vit.encoder.layer.1.attention.output.dense"])") == Names{"blocks.1.attn.proj"});
  const model::LoraConfig joined = lora_of(experiment_with(folder, kVit, adapter_config(R"(["query", "value"])")));
  CHECK(joined.target_modules == Names{"attn.qkv"});
  CHECK(joined.rank == 12);
  CHECK(joined.alpha == 18);
}

TEST_CASE("modules_to_save of heads leaves ours, except BERT's pooler", "[experiment]") {
  const TemporaryDirectory folder;
  const auto saved = [&](const std::string& base, const std::string& theirs) {
    return lora_of(experiment_with(folder, base, adapter_config(R"(["fc1"])", "\"modules_to_save\": " + theirs)))
        .modules_to_save;
  };
  CHECK(saved(kBert, R"(["classifier", "score"])") == Names{"classifier"});
  CHECK_FALSE(saved(kBert, R"(["bert.pooler.dense", "classifier"])").has_value());
  CHECK_FALSE(saved(kDistilBert, R"(["pre_classifier", "classifier", "score"])").has_value());
  CHECK_FALSE(saved(kVit, R"(["classifier"])").has_value());
  // A file that saves no layer adapts its heads, or has them from the base.
  CHECK(saved(kBert, "null") == Names{});
  CHECK(saved(kBert, "[]") == Names{});
  CHECK(saved(kBert, R"(["LayerNorm", "classifier", "score"])") == Names{"LayerNorm", "classifier"});
}

TEST_CASE("what adapters here can't do is told at its line", "[experiment]") {
  using Catch::Contains;
  const TemporaryDirectory folder;
  const auto refused = [&](const std::string& targets, const std::string& more) {
    return failure(experiment_with(folder, kBert, adapter_config(targets, more)));
  };
  CHECK_THAT(refused(R"(["query"])", R"("use_rslora": true, "layer_replication": [[0, 4]])"),
             Contains("adapter_config.json:12:") && Contains("layer_replication [[0,4]]"));
  CHECK_THAT(refused(R"(["query"])", R"("lora_bias": true)"), Contains("adapters here have no bias"));
  CHECK_THAT(refused(R"("all.*linear")", ""), Contains("model.lora.target_modules") && Contains("list them here"));
  CHECK_THAT(refused(R"(["query"])", R"("layers_to_transform": [1])"), Contains("list them here"));
  CHECK_THAT(refused(R"([1])", ""), Contains("another type than peft writes"));
  const auto path = experiment_with(folder, kBert, adapter_config(R"(["query"])"));
  std::filesystem::remove(folder / "ADAPTER/adapter_config.json");
  CHECK_THAT(failure(path), Contains("there is no adapter_config.json in "));
}

TEST_CASE("adapters in the place of weights are told as such", "[experiment]") {
  const TemporaryDirectory folder;
  folder.write("ADAPTER/adapter_config.json", adapter_config(R"(["query"])"));
  CHECK_THAT(failure(folder.write("exp.yaml",
                                  "name: x\ndataset: {kind: synthetic_tokens, seq_len: 16, vocab_size: 61}\n"
                                  "train: {steps: 4}\ntask: causal_lm\nmodel: {init_from: " +
                                      (folder / "ADAPTER").string() + "}\n")),
             Catch::Contains("has adapters without the weights that they adapt"));
}

TEST_CASE("adapters need their base, and layers", "[experiment]") {
  const TemporaryDirectory folder;
  const std::string head =
      "name: x\ndataset: {kind: synthetic_tokens, seq_len: 16, vocab_size: 61}\ntrain: {steps: 4}\ntask: causal_lm\n";
  CHECK_THAT(failure(folder.write("a.yaml", head + "model: {kind: gpt2, lora: {rank: 4}}\n")),
             Catch::Contains("model.lora.target_modules: required"));
  folder.write("ADAPTER/adapter_config.json", adapter_config(R"(["c_attn"])"));
  CHECK_THAT(failure(folder.write(
                 "b.yaml", head + "model: {kind: gpt2, lora: {init_from: " + (folder / "ADAPTER").string() + "}}\n")),
             Catch::Contains("set model.init_from to these"));
}

}  // namespace trainctl::experiment::published_adapter_test
