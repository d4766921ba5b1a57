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
  return networks;
}

inline std::unique_ptr<model::Model> ready(const PublishedNetwork& published, std::uint64_t seed = 1) {
  std::unique_ptr<model::Model> model = model::build(model::ModelConfig{.network = published.network}, published.input);
  model::materialize(*model, at::kCPU, seed, /*channels_last=*/false);
  model->set_training(false);
  return model;
}

inline at::Tensor logits_of(model::Model& model, const at::Tensor& inputs) {
  const at::NoGradGuard no_grad;
  return model.forward(inputs);
}

/// Of the largest magnitude expected.
inline double relative_difference(const at::Tensor& actual, const at::Tensor& expected) {
  return actual.sub(expected).abs().max().item<double>() / expected.abs().max().item<double>();
}

inline void run_published_weights(const std::string& mode, const std::filesystem::path& root) {
  run_reference("published_weights.py", {mode, root.string()});
}

}  // namespace trainctl::testing
