// Small networks of every kind, with their input.
#pragma once

#include <ATen/Context.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <memory>
#include <string>
#include <vector>

#include "activation_checkpointing/config.h"
#include "core/error.h"
#include "kernels/linear_cross_entropy.h"
#include "model/model.h"
#include "support/llama_families.h"

namespace trainctl::testing {

struct Net {
  std::string name;
  model::ModelConfig config;
  model::InputSpec spec;
  model::ModelInput input;
};

inline activation_checkpointing::ActivationCheckpointingConfig full_checkpointing() {
  return {.blocks = activation_checkpointing::FullCheckpointingConfig{}};
}

inline std::vector<testing::Net> networks() {
  const auto model = [](model::NetworkConfig network) {
    return model::ModelConfig{.network = std::move(network), .memory_format = {}, .init_from = {}};
  };
  const model::InputSpec image{.shape = {3, 16, 16}, .num_classes = 5};
  const model::InputSpec text{.shape = {16}, .vocab_size = 64};
  const model::InputSpec labelled{.shape = {16}, .num_classes = 3, .vocab_size = 64};
  at::manual_seed(5);
  const at::Tensor images = at::randn({4, 3, 16, 16});
  const at::Tensor ids = at::randint(1, 64, {4, 16}, at::kLong);
  at::Tensor mask = at::ones({4, 16}, at::kBool);
  mask[1].narrow(0, 9, 7).fill_(false);
  model::Gpt2Config gpt2{.hidden_size = 64, .num_layers = 6, .num_heads = 4};
  gpt2.max_position_embeddings = 16;
  model::LlamaConfig llama{.hidden_size = 64, .num_layers = 3, .num_heads = 4, .num_key_value_heads = std::int64_t{2}};
  const model::BertConfig bert{.hidden_size = 64, .num_layers = 3, .num_heads = 4, .intermediate_size = 128};
  model::VitConfig vit{.hidden_size = 64, .num_layers = 4, .num_heads = 4, .intermediate_size = 128, .patch_size = 4};
  vit.dropout = vit.drop_path = 0.2;
  model::ModelConfig adapted = model(bert);
  adapted.lora = model::LoraConfig{.rank = 4, .dropout = 0.1, .target_modules = {"query", "value", "dense"}};
  return {{"gpt2", model(gpt2), text, {.values = ids}},
          {"llama", model(llama), text, {.values = ids}},
          {"gemma3", model(small_gemma3()), text, {.values = ids}},
          {"bert", model(bert), labelled, {.values = ids, .key_mask = mask}},
          {"bert with adapters", adapted, labelled, {.values = ids, .key_mask = mask}},
          {"vit", model(vit), image, {.values = images}},
          {"lstm", model(model::LstmConfig{.hidden_size = 32, .num_layers = 2}), text, {.values = ids}},
          {"cnn",
           model(model::CnnConfig{.channels = {8, 8, 8}, .batch_norm = true, .hidden = 16, .dropout = 0.3}),
           image,
           {.values = images}},
          {"plain cnn", model(model::CnnConfig{.channels = {8, 8, 8}, .hidden = 16}), image, {.values = images}},
          {"wide_resnet",
           model(model::WideResNetConfig{.depth = 10, .widen_factor = 1, .dropout = 0.3}),
           image,
           {.values = images}},
          {"resnet18", model(model::ResNetConfig<18>{.stem = model::ResNetStem::cifar}), image, {.values = images}},
          {"resnet50", model(model::ResNetConfig<50>{.stem = model::ResNetStem::cifar}), image, {.values = images}}};
}

inline Net net(const std::string& name) {
  for (Net& one : networks())
    if (one.name == name) return one;
  throw core::Error("no network " + name);
}

inline std::unique_ptr<model::Model> ready(const Net& n) {
  std::unique_ptr<model::Model> model = model::build(n.config, n.spec);
  model::materialize(*model, at::kCPU, 1, /*channels_last=*/false);
  return model;
}

/// As training computes it: a language model's head never holds all logits.
inline at::Tensor loss_of(model::Model& model, const model::ModelInput& input) {
  if (model.vocabulary_head() == nullptr) return model.forward(input).sin().sum();
  return model.forward_into_head(input, [&](model::VocabularyHead& head, const at::Tensor& hidden) {
    return kernels::linear_cross_entropy(head.transform(hidden).flatten(0, 1), head.weight(), head.bias(),
                                         input.values.flatten());
  });
}

}  // namespace trainctl::testing
