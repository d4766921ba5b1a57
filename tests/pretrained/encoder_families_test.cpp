// The families of bert and vit against transformers, timm and the closed form of sentence-transformers' poolings.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdio>

#include "../model/recorded_model.h"
#include "pretrained/transformers_names.h"

namespace trainctl::pretrained {
namespace {

using model::BertConfig;
using model::BertHead;
using model::BertPooler;
using model::BertPooling;
using model::VitConfig;
using testing::RecordedCase;
using testing::TensorMap;

const model::InputSpec kText{.shape = {24}, .vocab_size = 97};
const model::InputSpec kLabelledText{.shape = {24}, .num_classes = 5, .vocab_size = 97};
const model::InputSpec kImages{.shape = {3, 32, 32}, .num_classes = 5};

BertConfig small_bert() {
  BertConfig config;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 4;
  config.intermediate_size = 64;
  config.max_position_embeddings = 32;
  config.dropout = config.attention_dropout = 0;
  return config;
}

BertConfig roberta() {
  BertConfig config = small_bert();
  config.position_offset = 2;
  config.pad_token_id = 1;
  config.type_vocab_size = 1;
  config.layer_norm_epsilon = 1e-5;
  config.dropout_before_pooler = true;
  return config;
}

BertConfig distilbert() {
  BertConfig config = small_bert();
  config.type_vocab_size = 0;
  config.pooler = BertPooler::relu;
  return config;
}

BertConfig electra() {
  BertConfig config = small_bert();
  config.embedding_size = 16;
  config.pooler = BertPooler::gelu;
  config.dropout_before_pooler = true;
  return config;
}

BertConfig with_head(BertConfig config, BertHead head) {
  config.head = head;
  return config;
}

BertConfig pooled(BertPooling pooling, bool is_normalized) {
  BertConfig config = small_bert();
  config.pooling = pooling;
  config.pooler = BertPooler::none;
  config.normalize_pooled = is_normalized;
  return config;
}

VitConfig small_vit(double epsilon) {
  VitConfig config;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 4;
  config.intermediate_size = 64;
  config.patch_size = 8;
  config.layer_norm_epsilon = epsilon;
  return config;
}

VitConfig deit(double epsilon, model::VitPool pool) {
  VitConfig config = small_vit(epsilon);
  config.distillation_token = true;
  config.pool = pool;
  return config;
}

VitConfig clip(model::VitActivation activation) {
  VitConfig config = small_vit(1e-5);
  config.patch_bias = false;
  config.embedding_norm = true;
  config.activation = activation;
  return config;
}

std::vector<RecordedCase> cases() {
  std::vector<RecordedCase> all;
  const auto add_heads = [&](const std::string& family, const BertConfig& config) {
    all.push_back({family + "-masked-lm", config, kText});
    all.push_back({family + "-classification", config, kLabelledText});
    all.push_back({family + "-token-classification", with_head(config, BertHead::token_classification), kLabelledText});
  };
  add_heads("roberta", roberta());
  add_heads("distilbert", distilbert());
  add_heads("electra", electra());
  all.push_back({"sentence-cls", pooled(BertPooling::first, false), kLabelledText});
  all.push_back({"sentence-mean", pooled(BertPooling::mean, false), kLabelledText});
  all.push_back({"sentence-mean-normalized", pooled(BertPooling::mean, true), kLabelledText});
  all.push_back({"sentence-max-normalized", pooled(BertPooling::max, true), kLabelledText});
  all.push_back({"deit", deit(1e-12, model::VitPool::token), kImages});
  all.push_back({"deit-with-teacher", deit(1e-12, model::VitPool::distilled), kImages});
  all.push_back({"deit-timm", deit(1e-6, model::VitPool::distilled), kImages});
  all.push_back({"clip", clip(model::VitActivation::quick_gelu), kImages});
  all.push_back({"clip-gelu", clip(model::VitActivation::gelu), kImages});
  all.push_back({"clip-timm", clip(model::VitActivation::quick_gelu), kImages});
  for (RecordedCase& one : all) one.precision = testing::Precision::double_;
  return all;
}

/// Returns the recorded tensors, with weights and gradients under our names.
TensorMap named_as_here(const TensorMap& recorded, const model::NetworkConfig& network) {
  TensorMap tensors;
  for (const std::string prefix : {"weights/", "gradients/"}) {
    checkpoint::TensorMap theirs;
    for (const auto& [name, tensor] : recorded)
      if (name.starts_with(prefix)) {
        const std::string bare = name.substr(prefix.size());
        theirs[bare.starts_with("tower.") ? bare.substr(6) : bare] = tensor;
      }
    for (const auto& [name, tensor] : renamed_from_transformers(theirs, network)) tensors[prefix + name] = tensor;
  }
  for (const auto& [name, tensor] : recorded)
    if (!name.starts_with("weights/") && !name.starts_with("gradients/")) tensors[name] = tensor;
  return tensors;
}

TEST_CASE("each family of bert and vit is the published one: outputs, gradients and twenty steps",
          "[pretrained][reference]") {
  const auto all = testing::reference("encoder_families.py", "record");
  std::fprintf(stderr, "| network | output | gradients | losses of 20 steps |\n| --- | --- | --- | --- |\n");
  for (const RecordedCase& one : cases()) {
    INFO(one.part);
    const TensorMap recorded = named_as_here(testing::part_of(all, one.part), one.network);
    const auto model = testing::model_of(one, /*seed=*/1);
    const testing::Differences off = testing::check_against_recorded(*model, recorded, {testing::plain_loss});
    CHECK(std::max({off.output, off.gradients, off.steps}) < 1e-9);
    std::fprintf(stderr, "| %s | %.1e | %.1e | %.1e |\n", one.part.c_str(), off.output, off.gradients, off.steps);
  }
}

}  // namespace
}  // namespace trainctl::pretrained
