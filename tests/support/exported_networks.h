// Small networks of the whole zoo, and batches of several sizes for them.
#pragma once

#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exporters/signature.h"
#include "model/lora.h"
#include "support/published_networks.h"

namespace trainctl::testing {

struct ExportedNetwork : PublishedNetwork {
  std::optional<model::LoraConfig> lora{};
};

/// Every layer for images and rows that other networks lack.
inline model::LayersConfig layers_of_every_kind() {
  using namespace layer_graph;  // NOLINT(google-build-using-namespace): a list of nothing else
  const LayerList squeeze{{GlobalAvgPoolLayer{.keep_dims = true}},
                          {Conv2dLayer{.channels = 8, .kernel_size = 1}},
                          {ActivationLayer<Activation::hardsigmoid>{}}};
  const LayerList branch{{Conv2dLayer{.channels = 8, .kernel_size = 1}}, {EluLayer{}}};
  return {.layers = {{Conv2dLayer{.channels = 8, .groups = 1}},
                     {GroupNormLayer{.groups = 4}},
                     {ActivationLayer<Activation::mish>{}, "first"},
                     {DepthwiseConv2dLayer{.dilation = 2}},
                     {ActivationLayer<Activation::relu6>{}},
                     {LayerNormLayer{}},
                     {LayerScaleLayer{.init_value = 0.5}},
                     {ActivationLayer<Activation::hardswish>{}},
                     {MultiplyLayer{.branches = {{}, squeeze}}},
                     {AvgPoolLayer{.kernel_size = 3, .stride = 2, .padding = 1}},
                     {ConvTranspose2dLayer{.channels = 8}},
                     {LeakyReluLayer{}},
                     {AddLayer{.branches = {{}, branch}}},
                     {ConcatLayer{.with = {"first"}}},
                     {MaxPoolLayer{}},
                     {UpsampleLayer{.mode = UpsampleMode::bilinear}},
                     {UpsampleLayer{}},
                     {ActivationLayer<Activation::softplus>{}},
                     {GlobalAvgPoolLayer{}},
                     {BatchNormLayer{}},
                     {RmsNormLayer{}},
                     {LinearLayer{}}}};
}

inline model::LayersConfig layers_for_tokens() {
  using namespace layer_graph;  // NOLINT(google-build-using-namespace): a list of nothing else
  return {.layers = {{EmbeddingLayer{.features = 16}},
                     {PositionEmbeddingLayer{}},
                     {ResidualLayer{.layers = {{LayerNormLayer{}}, {AttentionLayer{.num_heads = 2}}}}},
                     {MeanOfTokensLayer{}},
                     {LinearLayer{}}}};
}

inline std::vector<ExportedNetwork> exported_networks() {
  const model::InputSpec tokens{.shape = {24}, .vocab_size = 61};
  const model::InputSpec labelled{.shape = {24}, .num_classes = 5, .vocab_size = 61};
  const model::InputSpec images{.shape = {3, 16, 16}, .num_classes = 5};
  std::vector<ExportedNetwork> networks;
  // A graph has the rotary positions of longrope's short sequences, and one axis of tokens, which T5 isn't content
  // with; the others have no layer that is not among the rest.
  const std::set<std::string> left_out = {"phi3_long", "mistral_whole", "qwen2_sliding", "smollm3", "t5", "t5_flan"};
  for (PublishedNetwork& published : published_networks())
    if (!left_out.contains(published.name)) networks.push_back({std::move(published)});
  model::BertConfig tags{
      .hidden_size = 32, .num_layers = 1, .num_heads = 4, .intermediate_size = 48, .max_position_embeddings = 24};
  model::BertConfig mean = tags;
  tags.head = model::BertHead::token_classification;
  mean.pooling = model::BertPooling::mean;
  model::BertConfig max = mean;
  max.pooling = model::BertPooling::max;
  max.normalize_pooled = true;
  model::LstmConfig lm{.hidden_size = 16, .num_layers = 2, .dropout = 0.1};
  model::LstmConfig both = lm;
  both.bidirectional = true;
  const model::CnnConfig cnn{.channels = {4, 8}, .batch_norm = true, .hidden = 16};
  model::VitConfig vit{.hidden_size = 32, .num_layers = 1, .num_heads = 4, .intermediate_size = 48, .patch_size = 4};
  vit.pool = model::VitPool::avg;
  vit.class_token = false;
  model::VitConfig clip = vit;
  clip.pool = model::VitPool::token;
  clip.class_token = true;
  clip.patch_bias = false;
  clip.embedding_norm = true;
  clip.activation = model::VitActivation::quick_gelu;
  const model::LoraConfig lora{.rank = 2, .target_modules = {"c_attn"}};
  networks.push_back({{"bert_tags", tags, labelled}});
  networks.push_back({{"bert_mean", mean, labelled}});
  networks.push_back({{"bert_max_normalized", max, labelled}});
  networks.push_back({{"lstm", lm, tokens}});
  networks.push_back({{"lstm_classifier", lm, labelled}});
  networks.push_back({{"lstm_both_ways", both, labelled}});
  networks.push_back(
      {{"fasttext", model::FastTextConfig{.embedding_size = 16, .max_ngram = 3, .num_buckets = 101}, labelled}});
  networks.push_back({{"mlp", model::MlpConfig{.hidden = {16}}, images}});
  networks.push_back({{"mlp_rows", model::MlpConfig{.hidden = {16}}, {.shape = {7}, .num_classes = 3}}});
  networks.push_back({{"cnn", cnn, images}});
  networks.push_back({{"resnet18", model::ResNetConfig<18>{}, {.shape = {3, 32, 32}, .num_classes = 5}}});
  networks.push_back({{"wide_resnet", model::WideResNetConfig{.depth = 10, .widen_factor = 1}, images}});
  networks.push_back({{"vit_mean", vit, images}});
  networks.push_back({{"vit_clip", clip, images}});
  networks.push_back({{"layers", model::LayersConfig::starter(), images}});
  networks.push_back({{"layers_of_every_kind", layers_of_every_kind(), images}});
  networks.push_back({{"layers_tokens", layers_for_tokens(), labelled}});
  networks.push_back(
      {{"gpt2_lora",
        model::Gpt2Config{.hidden_size = 32, .num_layers = 1, .num_heads = 4, .max_position_embeddings = 24}, tokens},
       lora});
  return networks;
}

/// Materialised with weights whose outputs differ visibly, merged, in evaluation mode.
inline std::unique_ptr<model::Model> ready(const ExportedNetwork& exported) {
  model::ModelConfig config{.network = exported.network};
  config.lora = exported.lora;
  std::unique_ptr<model::Model> model = model::build(config, exported.input);
  model::materialize(*model, at::kCPU, /*seed=*/1, /*channels_last=*/false);
  {
    const at::NoGradGuard no_grad;
    const bool has_norms = exported.input.vocab_size > 0 || exported.name.starts_with("vit");
    if (has_norms)
      for (const model::NamedTensor& named : model::named_parameters(*model))
        named.tensor.add_(at::randn(named.tensor.sizes()).mul_(0.1));
    for (const model::NamedTensor& named : model::named_buffers(*model))
      if (named.tensor.is_floating_point()) named.tensor.add_(at::rand(named.tensor.sizes()).mul_(0.5));
  }
  model::merge_adapters(*model);
  model->set_training(false);
  return model;
}

/// Inputs at three batch sizes, and two lengths; rows of a batch end at different places.
inline std::vector<std::vector<at::Tensor>> batches_for(const exporters::Signature& signature) {
  std::vector<std::vector<at::Tensor>> batches;
  for (const std::int64_t length : {11, 24})
    for (const std::int64_t batch : {1, 3, 8}) {
      if (!signature.is_sequence() && length > 11) continue;
      std::vector<at::Tensor> inputs;
      for (const exporters::GraphInput& input : signature.inputs) {
        std::vector<std::int64_t> shape = input.shape;
        std::replace(shape.begin(), shape.end(), exporters::kBatchAxis, batch);
        std::replace(shape.begin(), shape.end(), exporters::kSequenceAxis, length);
        if (input.role == exporters::InputRole::values)
          inputs.push_back(signature.is_sequence() ? at::randint(signature.vocab_size, shape, at::kLong)
                                                   : at::randn(shape));
        if (input.role == exporters::InputRole::token_types) inputs.push_back(at::randint(2, shape, at::kLong));
        if (input.role != exporters::InputRole::attention_mask) continue;
        inputs.push_back(at::ones(shape, at::kLong));
        for (std::int64_t row = 0; row < batch; ++row) inputs.back()[row].narrow(0, length - row, row).zero_();
      }
      batches.push_back(std::move(inputs));
    }
  return batches;
}

}  // namespace trainctl::testing
