#include "experiment/published_config.h"

#include <catch2/catch.hpp>

#include "config/emit.h"
#include "core/error.h"
#include "experiment/load.h"
#include "support/temporary_directory.h"

namespace trainctl::experiment::published_config_test {

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
                                  "n_positions": 256, "vocab_size": 1000, "resid_pdrop": 0.3, "embd_pdrop": 0.3})",
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

TEST_CASE("each family of bert gives its features beside its sizes", "[experiment]") {
  const TemporaryDirectory folder;
  const std::string sizes =
      R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 130)";
  const auto roberta = network_of<model::BertConfig>(experiment_from(
      folder,
      R"({"model_type": "roberta", "type_vocab_size": 1, "pad_token_id": 1, "layer_norm_eps": 1e-5, )" + sizes + "}"));
  CHECK((roberta.position_offset == 2 && roberta.longest() == 128 && roberta.pad_token_id == 1));
  CHECK((roberta.type_vocab_size == 1 && roberta.dropout_before_pooler && roberta.layer_norm_epsilon == 1e-5));
  CHECK(roberta.resolved_pooler() == model::BertPooler::tanh);

  const std::string distilbert_json =
      R"({"model_type": "distilbert", "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 96,
          "max_position_embeddings": 128, "seq_classif_dropout": 0.2, "dropout": 0.05})";
  const auto distilbert = network_of<model::BertConfig>(experiment_from(folder, distilbert_json));
  CHECK((distilbert.hidden_size == 64 && distilbert.num_layers == 2 && distilbert.intermediate_size == 96));
  CHECK((distilbert.type_vocab_size == 0 && distilbert.resolved_pooler() == model::BertPooler::relu));
  CHECK((distilbert.dropout == 0.05 && distilbert.dropout_of_classifier() == 0.2));
  folder.write("train.conll", "Ada B-PER\n");
  const std::string tagged = "{kind: text_token_classification, train: " + (folder / "train.conll").string() +
                             ", tokenizer: " + (folder / "none.json").string() +
                             ", max_length: 16, class_names: [O, B-PER]}";
  const auto tagger = network_of<model::BertConfig>(
      experiment_from(folder, distilbert_json, ", head: token_classification", tagged, "token_classification"));
  CHECK(tagger.dropout_of_classifier() == 0.05);  // as DistilBertForTokenClassification's

  const auto electra = network_of<model::BertConfig>(
      experiment_from(folder, R"({"model_type": "electra", "embedding_size": 32, )" + sizes + "}"));
  CHECK((electra.size_of_embeddings() == 32 && electra.hidden_size == 64 && electra.dropout_before_pooler));
  CHECK(electra.resolved_pooler() == model::BertPooler::gelu);
}

TEST_CASE("a directory of sentence-transformers gives the pooling, in both forms of its config", "[experiment]") {
  const TemporaryDirectory folder;
  const auto with = [&](const std::string& pooling, const std::string& others = "") {
    folder.write("DIR/1_Pooling/config.json", pooling);
    folder.write("DIR/modules.json",
                 R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                     {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})" +
                     others + "]");
  };
  const std::string normalize =
      R"(, {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"})";
  with(R"({"word_embedding_dimension": 384, "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true,
           "pooling_mode_max_tokens": false})",
       normalize);
  const auto mean = network_of<model::BertConfig>(experiment_from(folder, kMiniLm));
  CHECK((mean.pooling == model::BertPooling::mean && mean.normalize_pooled));
  CHECK(mean.resolved_pooler() == model::BertPooler::none);
  with(R"({"embedding_dimension": 384, "pooling_mode": "cls", "include_prompt": true})");
  const auto first = network_of<model::BertConfig>(
      experiment_from(folder, R"({"model_type": "roberta", "pad_token_id": 1, "max_position_embeddings": 130})"));
  CHECK((first.pooling == model::BertPooling::first && first.resolved_pooler() == model::BertPooler::none));
  CHECK((!first.normalize_pooled && !first.dropout_before_pooler));
  CHECK(network_of<model::BertConfig>(experiment_from(folder, kMiniLm, ", pooling: max")).normalize_pooled == false);

  with(R"({"pooling_mode_lasttoken": true})");
  CHECK(failure(experiment_from(folder, kMiniLm)).find("pooling_mode_lasttoken is lasttoken; expected one") !=
        std::string::npos);
  with(R"({"pooling_mode": ["mean", "max"]})");
  CHECK(failure(experiment_from(folder, kMiniLm)).find("pooling_mode adds a second pooling, max") != std::string::npos);
  with(R"({"pooling_mode": "mean"})",
       R"(, {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"})");
  CHECK(failure(experiment_from(folder, kMiniLm)).find("type is sentence_transformers.models.Dense in 2_Dense") !=
        std::string::npos);
}

TEST_CASE("DeiT and CLIP's image tower give the features of vit", "[experiment]") {
  const TemporaryDirectory folder;
  const std::string sizes =
      R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "patch_size": 8)";
  const auto vit = [&](const std::string& json) {
    return network_of<model::VitConfig>(experiment_from(folder, json, "", kImages, "classification"));
  };
  const auto deit = vit(R"({"model_type": "deit", "architectures": ["DeiTForImageClassification"], )" + sizes + "}");
  CHECK((deit.distillation_token && deit.pool == model::VitPool::token));
  const auto with_teacher =
      vit(R"({"model_type": "deit", "architectures": ["DeiTForImageClassificationWithTeacher"], )" + sizes + "}");
  CHECK((with_teacher.distillation_token && with_teacher.pool == model::VitPool::distilled));
  const auto tower = vit(R"({"model_type": "clip_vision_model", "hidden_act": "gelu", )" + sizes + "}");
  CHECK((tower.embedding_norm && !tower.patch_bias && tower.activation == model::VitActivation::gelu));
  CHECK((tower.hidden_size == 64 && tower.layer_norm_epsilon == 1e-5));
  const auto both = vit(R"({"model_type": "clip", "text_config": {}, "vision_config": {"patch_size": 16}})");
  CHECK((both.patch_size == 16 && both.hidden_size == 768 && both.activation == model::VitActivation::quick_gelu));
  const auto timm_deit = vit(R"({"architecture": "deit_tiny_distilled_patch16_224"})");
  CHECK((timm_deit.hidden_size == 192 && timm_deit.pool == model::VitPool::distilled));
  const auto timm_clip = vit(R"({"architecture": "vit_base_patch16_clip_quickgelu_224"})");
  CHECK((timm_clip.embedding_norm && timm_clip.activation == model::VitActivation::quick_gelu));
  CHECK(timm_clip.layer_norm_epsilon == 1e-5);
  CHECK(failure(experiment_from(folder, R"({"model_type": "clip_vision_model", "hidden_act": "relu", )" + sizes + "}",
                                "", kImages, "classification"))
            .find("config.json:1:37: model.activation: ") != std::string::npos);
}

TEST_CASE("a CLIP that classifies the mean of its patches is refused", "[experiment][regression]") {
  const TemporaryDirectory folder;
  for (const std::string type : {"clip", "clip_vision_model"}) {
    const auto with_class = [&](const std::string& name) {
      const std::string json = "{\"model_type\": \"" + type + "\",\n\"architectures\": [\"" + name + "\"]}";
      return failure(experiment_from(folder, json, "", kImages, "classification"));
    };
    CHECK(with_class("CLIPForImageClassification").find("config.json:2:1: model.init_from: architectures ") !=
          std::string::npos);
    CHECK(with_class("CLIPVisionModel").empty());
  }
}

TEST_CASE("two descriptions of CLIP's image tower that differ are refused", "[experiment][regression]") {
  const TemporaryDirectory folder;
  const auto with_older = [&](const std::string& tower) {
    const std::string json =
        "{\"model_type\": \"clip\", \"vision_config\": {\"hidden_act\": \"gelu\", \"patch_size\": 8},\n"
        "\"vision_config_dict\": " +
        tower + "}";
    return failure(experiment_from(folder, json, "", kImages, "classification"));
  };
  CHECK(with_older("null").empty());
  CHECK(with_older(R"({"hidden_act": "gelu", "patch_size": 8, "projection_dim": 77})").empty());
  // What the older key leaves out has the class's default, quick_gelu.
  CHECK(with_older(R"({"patch_size": 8})").find("config.json:2:1: model.init_from: vision_config_dict ") !=
        std::string::npos);
}

TEST_CASE("config.json gives both forms of T5, as transformers wrote them before version 5 and since", "[experiment]") {
  const TemporaryDirectory folder;
  const std::string sizes =
      R"("model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 3, "num_decoder_layers": 2,
      "num_heads": 6, "vocab_size": 32128, "relative_attention_num_buckets": 16, "dropout_rate": 0.2)";
  const auto t5_with = [&](const std::string& more) {
    return experiment_from(folder, "{" + sizes + more + "}", "",
                           "{kind: text_seq2seq, train: {files: [pairs.jsonl]}, tokenizer: bytes}", "seq2seq_lm");
  };
  const auto first = network_of<model::T5Config>(t5_with(""));
  CHECK((first.hidden_size == 64 && first.size_of_head() == 16 && first.intermediate_size == 96));
  CHECK((first.num_layers == 3 && first.decoder_layers() == 2 && first.num_heads == 6));
  CHECK((first.relative_attention_num_buckets == 16 && first.relative_attention_max_distance == 128));
  CHECK((first.dropout == 0.2 && first.tie_embeddings && first.feed_forward_proj == model::T5FeedForward::relu));
  const auto flan =
      network_of<model::T5Config>(t5_with(R"(, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false)"));
  CHECK((!flan.tie_embeddings && flan.feed_forward_proj == model::T5FeedForward::gated_gelu));
  CHECK(!network_of<model::T5Config>(t5_with(R"(, "tie_word_embeddings": true, "scale_decoder_outputs": false)"))
             .tie_embeddings);
  CHECK(failure(t5_with(R"(, "feed_forward_proj": "gated-silu")"))
            .find("feed_forward_proj \"gated-silu\": expected relu or gated-gelu") != std::string::npos);
}

TEST_CASE("keys that change what transformers computes, and no network here does, are refused at their lines",
          "[experiment][regression]") {
  const TemporaryDirectory folder;
  const std::string tokens = "{kind: synthetic_tokens, seq_len: 16, vocab_size: 100}";
  const auto gpt2 = [&](const std::string& keys, const std::string& model = "") {
    return failure(experiment_from(folder, "{\"model_type\": \"gpt2\",\n" + keys + "}", model, tokens, "causal_lm"));
  };
  const auto names = [](const std::string& text, const std::string& key) {
    return text.find("config.json:2:1: model.init_from: " + key + " ") != std::string::npos;
  };
  CHECK(names(gpt2(R"("scale_attn_weights": false)"), "scale_attn_weights"));
  CHECK(names(gpt2(R"("scale_attn_by_inverse_layer_idx": true)"), "scale_attn_by_inverse_layer_idx"));
  CHECK(names(gpt2(R"("activation_function": "relu")"), "activation_function"));
  CHECK(names(gpt2(R"("add_cross_attention": true)"), "add_cross_attention"));
  CHECK(names(gpt2(R"("tie_word_embeddings": false)"), "tie_word_embeddings"));
  CHECK(names(gpt2(R"("quantization_config": {"bits": 4})"), "quantization_config"));
  CHECK(names(gpt2(R"("per_layer_config": {"0": {"layer_norm_epsilon": 0.5}})"), "per_layer_config"));
  CHECK(gpt2(R"("per_layer_config": {})").empty());
  CHECK(names(gpt2(R"("embd_pdrop": 0.0)"), "embd_pdrop"));
  CHECK(gpt2(R"("embd_pdrop": 0.0)", ", dropout: 0.0").empty());
  CHECK(gpt2(R"("scale_attn_weights": true, "reorder_and_upcast_attn": true, "summary_type": "mean")").empty());

  const auto bert = [&](const std::string& type, const std::string& keys) {
    return failure(experiment_from(folder, "{\"model_type\": \"" + type + "\",\n" + keys + "}"));
  };
  CHECK(names(bert("bert", R"("hidden_act": "relu")"), "hidden_act"));
  CHECK(names(bert("roberta", R"("is_decoder": true)"), "is_decoder"));
  CHECK(names(bert("electra", R"("position_embedding_type": "relative_key")"), "position_embedding_type"));
  CHECK(names(bert("distilbert", R"("activation": "relu")"), "activation"));
  CHECK(bert("bert", R"("is_decoder": false, "use_cache": true, "initializer_range": 0.5)").empty());

  const auto t5 = [&](const std::string& keys) {
    return failure(experiment_from(folder, "{\"model_type\": \"t5\",\n" + keys + "}", "",
                                   "{kind: text_seq2seq, train: {files: [pairs.jsonl]}, tokenizer: bytes}",
                                   "seq2seq_lm"));
  };
  CHECK(names(t5(R"("dense_act_fn": "silu")"), "dense_act_fn"));
  CHECK(names(t5(R"("is_gated_act": true)"), "is_gated_act"));
  CHECK(t5(R"("feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu_new", "is_gated_act": true)").empty());
  CHECK(
      failure(experiment_from(folder, "{\"model_type\": \"vit\",\n\"qkv_bias\": false}", "", kImages, "classification"))
          .find("qkv_bias false: ") != std::string::npos);
}

TEST_CASE("keys that config.json leaves out are the defaults of transformers' classes", "[experiment]") {
  const TemporaryDirectory folder;
  const auto distilbert = network_of<model::BertConfig>(experiment_from(folder, R"({"model_type": "distilbert"})"));
  CHECK((distilbert.num_layers == 6 && distilbert.dropout_of_classifier() == 0.2));
  const auto electra = network_of<model::BertConfig>(experiment_from(folder, R"({"model_type": "electra"})"));
  CHECK((electra.size_of_embeddings() == 128 && electra.hidden_size == 256));
  CHECK((electra.num_heads == 4 && electra.intermediate_size == 1024));
  const auto bert = R"({"model_type": "bert", "pad_token_id": null})";
  CHECK(!network_of<model::BertConfig>(experiment_from(folder, bert)).pad_token_id);
  const auto vit = experiment_from(folder, R"({"model_type": "vit"})", "", kImages, "classification");
  CHECK(network_of<model::VitConfig>(vit).layer_norm_epsilon == 1e-12);
  const auto t5 =
      experiment_from(folder, R"({"model_type": "t5", "d_model": 256})", "",
                      "{kind: text_seq2seq, train: {files: [pairs.jsonl]}, tokenizer: bytes}", "seq2seq_lm");
  CHECK(network_of<model::T5Config>(t5).size_of_head() == 64);
}

TEST_CASE("the decoder begins with the token of config.json, unless the user sets another",
          "[experiment][regression]") {
  const TemporaryDirectory folder;
  const auto start_with = [&](const std::string& json, const std::string& key) {
    const auto path = experiment_from(
        folder, "{\"model_type\": \"t5\"" + json + "}", "",
        "{kind: text_seq2seq, train: {files: [pairs.jsonl]}, tokenizer: bytes" + key + "}", "seq2seq_lm");
    const LoadedExperiment loaded = load_experiment(path);
    const auto* pairs = loaded.experiment.dataset.source.get_if<dataset::TextSeq2SeqConfig>();
    REQUIRE(pairs != nullptr);
    return pairs->decoder_start_token_id.value;
  };
  CHECK(start_with(R"(, "decoder_start_token_id": 7)", "") == 7);
  CHECK(start_with(R"(, "decoder_start_token_id": 7)", ", decoder_start_token_id: auto") == 7);
  CHECK(start_with(R"(, "decoder_start_token_id": 7)", ", decoder_start_token_id: 3") == 3);
  CHECK(!start_with("", ""));
  CHECK(!start_with(R"(, "decoder_start_token_id": null)", ""));
  folder.write("DIR/generation_config.json", "{\"max_length\": 8,\n\"decoder_start_token_id\": 7}");
  CHECK(start_with("", "") == 7);
  CHECK(start_with(R"(, "decoder_start_token_id": 7)", "") == 7);
  CHECK(start_with(R"(, "decoder_start_token_id": 5)", ", decoder_start_token_id: 3") == 3);
  const std::string differing =
      failure(experiment_from(folder, R"({"model_type": "t5", "decoder_start_token_id": 5})", "",
                              "{kind: text_seq2seq, train: {files: [pairs.jsonl]}, tokenizer: bytes}", "seq2seq_lm"));
  CHECK(differing.find("generation_config.json:2:1: dataset.decoder_start_token_id: 7 ") != std::string::npos);
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

TEST_CASE("arguments of timm that change the network are refused by name", "[experiment][regression]") {
  const TemporaryDirectory folder;
  const auto refused = [&](const std::string& architecture, const std::string& arguments) {
    return failure(experiment_from(folder,
                                   R"({"architecture": ")" + architecture + R"(", "model_args": )" + arguments + "}",
                                   "", kImages, "classification"));
  };
  CHECK(refused("resnet18", R"({"act_layer": "silu"})").find("act_layer \"silu\" changes the network") !=
        std::string::npos);
  CHECK(refused("vit_tiny_patch16_224", R"({"qk_norm": true})").find("qk_norm true") != std::string::npos);
  CHECK(refused("vit_tiny_patch16_224", R"({"later_feature": 2})").find("later_feature 2") != std::string::npos);
  network_of<model::ResNetConfig<18>>(
      experiment_from(folder, R"({"architecture": "resnet18", "model_args": {"in_chans": 1, "act_layer": "relu"}})", "",
                      kImages, "classification"));
  const auto vit = network_of<model::VitConfig>(
      experiment_from(folder, R"({"architecture": "vit_tiny_patch16_224", "model_args": {"qkv_bias": true,
                                  "img_size": 32, "embed_dim": 48, "mlp_ratio": 2.99}})",
                      "", kImages, "classification"));
  CHECK(vit.intermediate_size == 143);  // timm's int(48 * 2.99)
}

TEST_CASE("keys of the experiment are compared with timm's config.json", "[experiment][regression]") {
  const auto config = nlohmann::json::parse(R"({"architecture": "vit_tiny_patch16_224"})");
  model::VitConfig vit{.hidden_size = 192, .num_heads = 3, .intermediate_size = 768};
  CHECK(timm_differences(config, vit).empty());
  vit.num_heads = 4;
  vit.layer_norm_epsilon = 1e-5;
  vit.activation = model::VitActivation::quick_gelu;
  vit.pool = model::VitPool::avg;
  const std::vector<std::string> found = timm_differences(config, vit);
  REQUIRE(found.size() == 3);
  CHECK(found[0] == "num_heads is 3 by timm's architecture and 4 here (model.num_heads)");
  CHECK(timm_differences(config, model::ResNetConfig<18>{}).empty());
  CHECK(timm_differences({{"model_type", "vit"}}, vit).empty());
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
  const std::string mpnet = failure(experiment_from(folder, R"({"model_type": "mpnet"})"));
  CHECK(mpnet.find("model_type \"mpnet\"; expected a model_type of") != std::string::npos);
  CHECK(mpnet.find("roberta") != std::string::npos);
  CHECK(failure(experiment_from(folder, R"({"architecture": "vit_giant_patch14_clip_224"})"))
            .find("architecture \"vit_giant") != std::string::npos);
  CHECK(failure(experiment_from(folder, "[1")).find("config.json is no JSON object") != std::string::npos);
  CHECK(failure(experiment_from(folder, R"({"model_type": "bert", "hidden_size": "wide"})"))
            .find("config.json:1:24: model.hidden_size: ") != std::string::npos);
}

}  // namespace trainctl::experiment::published_config_test
