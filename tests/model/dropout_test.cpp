// What is random about a sample doesn't depend on the batch that it is in.
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>

#include "model/layers/drop_path.h"
#include "model/layers/dropout.h"
#include "model/model_support.h"
#include "runtime/sample_randomness.h"

namespace trainctl::model::dropout_test {
namespace {

constexpr std::int64_t kBatch = 8;

/// A network, what it is built for, and one batch for it.
struct Case {
  NetworkConfig network;
  InputSpec spec;
  ModelInput input;
  std::optional<LoraConfig> lora{};
};

at::Tensor ids() {
  return at::randint(0, 40, {kBatch, 12}, at::kLong);
}

/// Sequences of different lengths, the longest first.
at::Tensor key_mask() {
  at::Tensor mask = at::ones({kBatch, 12}, at::kBool);
  for (std::int64_t row = 0; row < kBatch; ++row) mask[row].narrow(0, 12 - row, row).fill_(false);
  return mask;
}

std::vector<Case> cases() {
  const InputSpec image{.shape = {2, 8, 8}, .num_classes = 5};
  const InputSpec text{.shape = {12}, .vocab_size = 40};
  const InputSpec labelled{.shape = {12}, .num_classes = 3, .vocab_size = 40};
  Gpt2Config gpt2{.hidden_size = 16, .num_layers = 2, .num_heads = 2, .dropout = 0.3, .attention_dropout = 0.3};
  gpt2.max_position_embeddings = 12;
  LlamaConfig llama{.hidden_size = 16, .num_layers = 2, .num_heads = 4, .num_key_value_heads = std::int64_t{2}};
  llama.attention_dropout = 0.3;
  BertConfig bert{.hidden_size = 16, .num_layers = 2, .num_heads = 2, .intermediate_size = 32};
  bert.dropout = bert.attention_dropout = 0.3;
  VitConfig vit{.hidden_size = 16, .num_layers = 3, .num_heads = 2, .intermediate_size = 32, .patch_size = 4};
  vit.dropout = vit.attention_dropout = vit.head_dropout = vit.drop_path = 0.3;
  const LstmConfig lstm{.hidden_size = 16, .num_layers = 3, .bidirectional = true, .dropout = 0.3};
  const LstmConfig language{.hidden_size = 16, .num_layers = 2, .dropout = 0.3};
  const LoraConfig lora{.rank = 4, .dropout = 0.4, .target_modules = {"query", "value"}};
  const at::Tensor images = at::randn({kBatch, 2, 8, 8}, at::kDouble);
  return {{MlpConfig{.hidden = {9, 7}, .dropout = 0.4}, image, {.values = images}},
          {CnnConfig{.channels = {4, 4}, .hidden = 8, .dropout = 0.4}, image, {.values = images}},
          {vit, image, {.values = images}},
          {gpt2, text, {.values = ids()}},
          {gpt2, text, {.values = ids(), .key_mask = key_mask()}},
          {llama, text, {.values = ids()}},
          {bert, labelled, {.values = ids(), .key_mask = key_mask()}},
          {bert, labelled, {.values = ids(), .key_mask = key_mask()}, lora},
          {lstm, labelled, {.values = ids(), .key_mask = key_mask()}},
          {language, text, {.values = ids()}}};
}

/// Rows `begin` to `begin + count`; without the columns that are padding in all of them.
ModelInput part(const ModelInput& input, std::int64_t begin, std::int64_t count) {
  ModelInput rows{.values = input.values.narrow(0, begin, count)};
  if (!input.key_mask.defined()) return rows;
  rows.key_mask = input.key_mask.narrow(0, begin, count);
  const std::int64_t longest = rows.key_mask.sum(1).max().item<std::int64_t>();
  rows.values = rows.values.narrow(1, 0, longest);
  rows.key_mask = rows.key_mask.narrow(1, 0, longest);
  return rows;
}

/// What a loss may look at: not the outputs at padding.
at::Tensor loss_of(const at::Tensor& output, const ModelInput& input) {
  at::Tensor loss = output.sin();
  if (input.key_mask.defined() && output.dim() == 3) loss = loss.mul(input.key_mask.unsqueeze(2));
  return loss.sum();
}

/// Gradients of all parameters, summed over micro-batches of `each` samples.
std::vector<at::Tensor> gradients_of(const Case& c, std::int64_t each) {
  ModelConfig config = testing::with_network(c.network);
  config.lora = c.lora;
  const std::unique_ptr<Model> model = build(config, c.spec);
  materialize(*model, at::kCPU, 1, /*channels_last=*/false);
  testing::make_double(*model);
  for (const NamedTensor& named : named_parameters(*model))
    if (named.name.ends_with("lora_B.weight")) named.tensor.detach().fill_(0.02);  // else A has no gradient
  for (std::int64_t begin = 0; begin < kBatch; begin += each) {
    const runtime::SampleRandomness randomness({.seed = 3, .epoch = 1, .first_sample = 100 + begin});
    const ModelInput input = part(c.input, begin, each);
    loss_of(model->forward(input), input).backward();
  }
  std::vector<at::Tensor> gradients;
  for (const NamedTensor& named : named_parameters(*model))
    if (named.tensor.grad().defined()) gradients.push_back(named.tensor.grad());
  return gradients;
}

std::vector<at::Tensor> flat(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& tensor : tensors) rows.push_back(tensor.flatten());
  return rows;
}

TEST_CASE("with dropout, a batch is two halves or four quarters in every network", "[model]") {
  // Not wide_resnet: its BatchNorm makes samples depend on each other.
  for (const Case& c : cases()) {
    INFO(c.network.kind() << (c.lora ? " with adapters" : ""));
    const std::vector<at::Tensor> whole = gradients_of(c, kBatch);
    REQUIRE_FALSE(whole.empty());
    for (const std::int64_t each : {4, 2}) {
      const std::vector<at::Tensor> parts = gradients_of(c, each);
      REQUIRE(parts.size() == whole.size());
      for (std::size_t i = 0; i < whole.size(); ++i)
        CHECK(testing::largest(parts[i].sub(whole[i])) <= 1e-12 * testing::largest(at::cat(flat(whole))));
    }
  }
}

TEST_CASE("micro-batches, epochs and calls are dropped differently", "[model]") {
  Dropout layer(0.5);
  const at::Tensor ones = at::ones({4, 64});
  const auto mask = [&](std::int64_t epoch, std::int64_t first_sample) {
    const runtime::SampleRandomness randomness({.seed = 1, .epoch = epoch, .first_sample = first_sample});
    const at::Tensor first = layer.forward(ones);
    return at::cat({first, layer.forward(ones)}).gt(0);
  };
  const at::Tensor one = mask(0, 0);
  CHECK(one.eq(mask(0, 0)).all().item<bool>());
  CHECK_FALSE(one.eq(mask(0, 4)).all().item<bool>());
  CHECK_FALSE(one.eq(mask(1, 0)).all().item<bool>());
  CHECK_FALSE(one.narrow(0, 0, 4).eq(one.narrow(0, 4, 4)).all().item<bool>());
}

TEST_CASE("stochastic depth keeps or drops whole samples at its rate", "[model]") {
  DropPath layer(0.25);
  const runtime::SampleRandomness randomness({.seed = 1});
  const at::Tensor output = layer.forward(at::ones({40'000, 2, 3}));
  const at::Tensor first = output.select(1, 0).select(1, 0);
  CHECK(output.eq(first.view({-1, 1, 1})).all().item<bool>());
  CHECK(first.eq(0).logical_or(first.eq(static_cast<float>(1 / 0.75))).all().item<bool>());
  CHECK(first.eq(0).to(at::kDouble).mean().item<double>() == Approx(0.25).margin(0.011));
}

}  // namespace
}  // namespace trainctl::model::dropout_test
