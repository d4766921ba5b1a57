// Small networks of every kind that travels, as tests/reference/published_weights.py makes them, and how to run it.
#pragma once

#include <ATen/core/grad_mode.h>
#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/model.h"
#include "pretrained/export_weights.h"
#include "support/llama_families.h"
#include "support/python.h"

namespace trainctl::testing {

struct PublishedNetwork {
  std::string name;
  model::NetworkConfig network;
  model::InputSpec input{};
};

/// The networks of other families that bert and vit can be.
inline std::vector<PublishedNetwork> encoder_families(const model::BertConfig& bert, const model::VitConfig& vit) {
  const model::InputSpec tokens{.shape = {24}, .vocab_size = 61};
  const model::InputSpec labelled{.shape = {24}, .num_classes = 5, .vocab_size = 61};
  const model::InputSpec images{.shape = {3, 16, 16}, .num_classes = 5};
  model::BertConfig roberta = bert;
  roberta.max_position_embeddings = 26;
  roberta.position_offset = 2;
  roberta.type_vocab_size = 1;
  roberta.pad_token_id = 1;
  roberta.dropout_before_pooler = true;
  model::BertConfig roberta_tags = roberta;
  roberta_tags.head = model::BertHead::token_classification;
  model::BertConfig distilbert = bert;
  distilbert.type_vocab_size = 0;
  distilbert.pooler = model::BertPooler::relu;
  model::BertConfig electra = bert;
  electra.embedding_size = 16;
  electra.pooler = model::BertPooler::gelu;
  electra.dropout_before_pooler = true;
  model::VitConfig deit = vit;
  deit.distillation_token = true;
  model::VitConfig with_teacher = deit;
  with_teacher.pool = model::VitPool::distilled;
  return {{"roberta_mlm", roberta, tokens},
          {"roberta_classifier", roberta, labelled},
          {"roberta_tags", roberta_tags, labelled},
          {"distilbert_mlm", distilbert, tokens},
          {"distilbert_classifier", distilbert, labelled},
          {"electra_mlm", electra, tokens},
          {"electra_classifier", electra, labelled},
          {"deit", deit, images},
          {"deit_with_teacher", with_teacher, images}};
}

/// T5 and FLAN-T5.
inline std::vector<PublishedNetwork> encoder_decoders() {
  const model::InputSpec pairs{.shape = {24}, .vocab_size = 61, .target_length = 24};
  const model::T5Config t5{.hidden_size = 32, .num_layers = 2, .num_heads = 4, .intermediate_size = 48};
  model::T5Config flan = t5;
  flan.num_decoder_layers = 3;
  flan.head_size = 12;
  flan.feed_forward_proj = model::T5FeedForward::gated_gelu;
  flan.tie_embeddings = false;
  return {{"t5", t5, pairs}, {"t5_flan", flan, pairs}};
}

inline std::vector<PublishedNetwork> published_networks() {
  const model::InputSpec tokens{.shape = {24}, .vocab_size = 61};
  const model::InputSpec labelled{.shape = {24}, .num_classes = 5, .vocab_size = 61};
  const model::InputSpec images{.shape = {3, 16, 16}, .num_classes = 5};
  const model::BertConfig bert{
      .hidden_size = 32, .num_layers = 2, .num_heads = 4, .intermediate_size = 48, .max_position_embeddings = 24};
  const model::Gpt2Config gpt2{.hidden_size = 32, .num_layers = 2, .num_heads = 4, .max_position_embeddings = 24};
  model::LlamaConfig llama{
      .hidden_size = 32, .num_layers = 2, .num_heads = 4, .num_key_value_heads = {2}, .max_position_embeddings = 64};
  llama.intermediate_size = 48;
  model::LlamaConfig tied = llama;
  tied.tie_embeddings = true;
  llama.rope_theta = 500000;
  llama.rope_scaling = model::Llama3RopeConfig{
      .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_max_position_embeddings = 16};
  const model::VitConfig vit{.hidden_size = 32,
                             .num_layers = 2,
                             .num_heads = 4,
                             .intermediate_size = 48,
                             .patch_size = 4,
                             .layer_norm_epsilon = 1e-12};
  std::vector<PublishedNetwork> networks = {{"bert_mlm", bert, tokens},   {"bert_classifier", bert, labelled},
                                            {"gpt2", gpt2, tokens},       {"llama", llama, tokens},
                                            {"llama_tied", tied, tokens}, {"vit", vit, images}};
  for (const NamedLlama& family : llama_families()) networks.push_back({family.name, family.config, tokens});
  for (PublishedNetwork& network : encoder_families(bert, vit)) networks.push_back(std::move(network));
  for (PublishedNetwork& network : encoder_decoders()) networks.push_back(std::move(network));
  return networks;
}

inline std::unique_ptr<model::Model> ready(const PublishedNetwork& published, std::uint64_t seed = 1) {
  std::unique_ptr<model::Model> model = model::build(model::ModelConfig{.network = published.network}, published.input);
  model::materialize(*model, at::kCPU, seed, /*channels_last=*/false);
  model->set_training(false);
  return model;
}

/// An encoder-decoder is given the inputs as source and as target.
inline at::Tensor logits_of(model::Model& model, const at::Tensor& inputs) {
  const at::NoGradGuard no_grad;
  return model.forward({.values = inputs, .decoder_values = inputs.dim() == 2 ? inputs : at::Tensor()});
}

/// Of the largest magnitude expected.
inline double relative_difference(const at::Tensor& actual, const at::Tensor& expected) {
  return actual.sub(expected).abs().max().item<double>() / expected.abs().max().item<double>();
}

inline void run_published_weights(const std::string& mode, const std::filesystem::path& root) {
  run_reference("published_weights.py", {mode, root.string()});
}

}  // namespace trainctl::testing
