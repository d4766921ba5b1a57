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

namespace trainctl::testing {

struct Net {
  std::string name;
  ModelConfig config;
  InputSpec spec;
  ModelInput input;
};

inline ActivationCheckpointingConfig every_block() {
  return {.blocks = EveryBlockConfig{}};
}

inline std::vector<Net> networks() {
  const auto model = [](NetworkConfig network) {
    return ModelConfig{.network = std::move(network), .memory_format = {}, .init_from = {}};
  };
  const InputSpec image{.shape = {3, 16, 16}, .num_classes = 5};
  const InputSpec text{.shape = {16}, .vocab_size = 64};
  const InputSpec labelled{.shape = {16}, .num_classes = 3, .vocab_size = 64};
  at::manual_seed(5);
  const at::Tensor images = at::randn({4, 3, 16, 16});
  const at::Tensor ids = at::randint(1, 64, {4, 16}, at::kLong);
  at::Tensor mask = at::ones({4, 16}, at::kBool);
  mask[1].narrow(0, 9, 7).fill_(false);
  Gpt2Config gpt2{.hidden_size = 64, .num_layers = 6, .num_heads = 4};
  gpt2.max_positions = 16;
  LlamaConfig llama{.hidden_size = 64, .num_layers = 3, .num_heads = 4, .num_key_value_heads = std::int64_t{2}};
  const BertConfig bert{.hidden_size = 64, .num_layers = 3, .num_heads = 4, .intermediate_size = 128};
  VitConfig vit{.hidden_size = 64, .num_layers = 4, .num_heads = 4, .intermediate_size = 128, .patch_size = 4};
  vit.dropout = vit.drop_path = 0.2;
  ModelConfig adapted = model(bert);
  adapted.lora = LoraConfig{.rank = 4, .dropout = 0.1, .targets = {"query", "value", "dense"}};
  return {{"gpt2", model(gpt2), text, {.values = ids}},
          {"llama", model(llama), text, {.values = ids}},
          {"bert", model(bert), labelled, {.values = ids, .key_mask = mask}},
          {"bert with adapters", adapted, labelled, {.values = ids, .key_mask = mask}},
          {"vit", model(vit), image, {.values = images}},
          {"lstm", model(LstmConfig{.hidden_size = 32, .num_layers = 2}), text, {.values = ids}},
          {"cnn",
           model(CnnConfig{.channels = {8, 8, 8}, .batch_norm = true, .hidden = 16, .dropout = 0.3}),
           image,
           {.values = images}},
          {"plain cnn", model(CnnConfig{.channels = {8, 8, 8}, .hidden = 16}), image, {.values = images}},
          {"wide_resnet",
           model(WideResNetConfig{.depth = 10, .widen_factor = 1, .dropout = 0.3}),
           image,
           {.values = images}},
          {"resnet18", model(ResNetConfig<18>{.stem = ResNetStem::cifar}), image, {.values = images}},
          {"resnet50", model(ResNetConfig<50>{.stem = ResNetStem::cifar}), image, {.values = images}}};
}

inline Net net(const std::string& name) {
  for (Net& one : networks())
    if (one.name == name) return one;
  throw Error("no network " + name);
}

inline std::unique_ptr<Model> ready(const Net& n) {
  std::unique_ptr<Model> model = build(n.config, n.spec);
  materialize(*model, at::kCPU, 1, /*channels_last=*/false);
  return model;
}

/// As training computes it: a language model's head never holds all logits.
inline at::Tensor loss_of(Model& model, const ModelInput& input) {
  if (model.vocabulary_head() == nullptr) return model.forward(input).sin().sum();
  return model.forward_into_head(input, [&](VocabularyHead& head, const at::Tensor& hidden) {
    return linear_cross_entropy(head.transform(hidden).flatten(0, 1), head.weight(), head.bias(),
                                input.values.flatten());
  });
}

}  // namespace trainctl::testing
