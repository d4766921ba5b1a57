// Our GPT-2 and Llama against transformers': logits, loss, every gradient, twenty steps of AdamW, from the same
// weights.
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/div.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <catch2/catch.hpp>

#include "kernels/linear_cross_entropy.h"
#include "model/model_support.h"
#include "support/reference.h"

namespace trainctl {
namespace {

using testing::TensorMap;

const InputSpec kTokens{.shape = {24}, .vocab_size = 97};

Gpt2Config small_gpt2() {
  Gpt2Config config;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 4;
  config.max_positions = 64;
  config.dropout = config.attention_dropout = 0;
  return config;
}

LlamaConfig small_llama() {
  LlamaConfig config;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 4;
  config.intermediate_size = 64;
  config.max_positions = 64;
  return config;
}

void load(Model& model, const TensorMap& reference) {
  const c10::NoGradGuard no_grad;
  std::size_t loaded = 0;
  model.visit_parameters([&](const std::string& name, Slot& slot) {
    INFO(name);
    REQUIRE(reference.contains("weights/" + name));
    REQUIRE(reference.at("weights/" + name).sizes() == slot.value.sizes());
    slot.value.copy_(reference.at("weights/" + name));
    ++loaded;
  });
  std::size_t there = 0;
  for (const auto& [name, tensor] : reference) there += name.starts_with("weights/") ? 1 : 0;
  CHECK(loaded == there);
}

enum class Loss { plain, chunked };

at::Tensor loss_sum(Model& model, const ModelInput& input, const at::Tensor& labels, Loss how) {
  if (how == Loss::plain)
    return at::cross_entropy_loss(model.forward(input).flatten(0, 1), labels.flatten(), {}, at::Reduction::Sum);
  return model.forward_into_head(input, [&](VocabularyHead& head, const at::Tensor& hidden) {
    return linear_cross_entropy(head.transform(hidden).flatten(0, 1), head.weight(), head.bias(), labels.flatten(),
                                {.label_smoothing = 0, .chunk_size = 16});
  });
}

void clear_gradients(Model& model) {
  for (NamedTensor& named : named_parameters(model)) named.tensor.mutable_grad() = at::Tensor();
}

void check_gradients(Model& model, const TensorMap& reference) {
  double worst = 0;
  for (NamedTensor& named : named_parameters(model)) {
    INFO(named.name);
    REQUIRE(named.tensor.grad().defined());
    const double off = testing::difference(named.tensor.grad(), reference.at("gradients/" + named.name));
    worst = std::max(worst, off);
    CHECK(off <= 1e-5);
  }
  std::fprintf(stderr, "largest relative difference of a gradient: %.2e\n", worst);
}

/// AdamW at 1e-3, decay 0.01, as the reference's.
void check_twenty_steps(Model& model, const ModelInput& input, const TensorMap& reference) {
  const at::Tensor& labels = reference.at("labels");
  const double count = labels.ge(0).sum().item<double>();
  std::vector<at::Tensor> parameters, first, second, steps;
  for (NamedTensor& named : named_parameters(model)) {
    parameters.push_back(named.tensor);
    first.push_back(at::zeros_like(named.tensor));
    second.push_back(at::zeros_like(named.tensor));
    steps.push_back(at::zeros_like(named.tensor.detach().flatten().narrow(0, 0, 1).squeeze()));
  }
  double worst = 0;
  for (std::int64_t i = 0; i < 20; ++i) {
    clear_gradients(model);
    const at::Tensor loss = loss_sum(model, input, labels, Loss::chunked);
    const double expected = reference.at("losses")[i].item<double>();
    worst = std::max(worst, std::abs(loss.item<double>() / count / expected - 1));
    at::div(loss, count).backward();
    const c10::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
    for (at::Tensor& step : steps) step.add_(1);
    at::_fused_adamw_(parameters, gradients, first, second, {}, steps, 1e-3, 0.9, 0.999, 0.01, 1e-8, false, false);
  }
  CHECK(worst <= 1e-4);
  std::fprintf(stderr, "twenty steps, largest relative difference of a loss: %.2e\n", worst);
}

void check_against_transformers(const NetworkConfig& network, const std::string& part) {
  INFO(part);
  const auto reference = testing::reference("transformers_causal.py", part);
  if (!reference) return;
  const auto model = testing::ready_model(network, kTokens);
  load(*model, *reference);
  ModelInput input{.values = reference->at("ids")};
  if (part.ends_with("-padded")) input.key_mask = reference->at("key_mask").to(at::kBool);
  const at::Tensor& labels = reference->at("labels");
  const at::Tensor counts = labels.ge(0).unsqueeze(-1);
  {
    const c10::NoGradGuard no_grad;
    CHECK(testing::difference(model->forward(input).mul(counts), reference->at("logits").mul(counts)) <= 1e-5);
  }
  for (const Loss how : {Loss::plain, Loss::chunked}) {
    clear_gradients(*model);
    const at::Tensor loss = loss_sum(*model, input, labels, how);
    CHECK(testing::difference(loss.detach(), reference->at("loss")) <= 1e-5);
    loss.backward();
    check_gradients(*model, *reference);
  }
  check_twenty_steps(*model, input, *reference);
}

TEST_CASE("gpt2 is transformers' GPT-2", "[model]") {
  check_against_transformers(small_gpt2(), "gpt2");
  check_against_transformers(small_gpt2(), "gpt2-padded");
}

TEST_CASE("llama is transformers' Llama, with grouped queries and tied embeddings", "[model]") {
  check_against_transformers(small_llama(), "llama");
  check_against_transformers(small_llama(), "llama-padded");
  LlamaConfig grouped = small_llama();
  grouped.num_key_value_heads = 2;
  check_against_transformers(grouped, "llama-gqa");
  LlamaConfig tied = small_llama();
  tied.tie_embeddings = true;
  check_against_transformers(tied, "llama-tied");
}

TEST_CASE("llama's rotary scalings are transformers'", "[model]") {
  LlamaConfig config = small_llama();
  config.rope_scaling = LinearRopeConfig{.factor = 2};
  check_against_transformers(config, "llama-linear");
  config.max_positions = 16;  // shorter than the sequence, so that it scales
  config.rope_scaling = DynamicRopeConfig{.factor = 2};
  check_against_transformers(config, "llama-dynamic");
  config.max_positions = 64;
  YarnRopeConfig yarn;
  yarn.factor = 4;
  yarn.original_max_positions = 16;
  config.rope_scaling = yarn;
  check_against_transformers(config, "llama-yarn");
  LongRopeConfig longrope;
  for (int i = 0; i < 4; ++i) longrope.short_factor.push_back(1 + 0.1 * i), longrope.long_factor.push_back(2 + 0.5 * i);
  longrope.original_max_positions = 16;
  longrope.factor = 4;
  config.rope_scaling = longrope;
  check_against_transformers(config, "llama-longrope");
  config.rope_scaling =
      Llama3RopeConfig{.factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_max_positions = 16};
  check_against_transformers(config, "llama-llama3");
}

TEST_CASE("dropout of a transformer is active while training only", "[model]") {
  Gpt2Config config = small_gpt2();
  config.dropout = config.attention_dropout = 0.5;
  const auto model = testing::ready_model(config, kTokens);
  const at::Tensor ids = at::ones({1, 24}, at::kLong);
  const c10::NoGradGuard no_grad;
  CHECK(testing::largest(model->forward(ids).sub(model->forward(ids))) > 0);
  model->set_training(false);
  CHECK(testing::largest(model->forward(ids).sub(model->forward(ids))) == 0);
}

TEST_CASE("documents packed into a row see only themselves", "[model]") {
  LlamaConfig llama = small_llama();
  for (const NetworkConfig& network : {NetworkConfig(small_gpt2()), NetworkConfig(llama)}) {
    const auto model = testing::ready_model(network, kTokens);
    model->set_training(false);
    const c10::NoGradGuard no_grad;
    const at::Tensor ids = at::ones({1, 24}, at::kLong).cumsum(1).mul(7).remainder(97);
    at::Tensor documents = at::zeros_like(ids);
    documents.narrow(1, 10, 14).fill_(1);
    const at::Tensor packed = model->forward(ModelInput{.values = ids, .documents = documents});
    const at::Tensor first = model->forward(ids.narrow(1, 0, 10));
    const at::Tensor second = model->forward(ids.narrow(1, 10, 14));
    CHECK(testing::difference(packed.narrow(1, 0, 10), first) <= 1e-5);
    CHECK(testing::difference(packed.narrow(1, 10, 14), second) <= 1e-5);
  }
}

TEST_CASE("a cache gives the same logits token by token, and in pieces", "[model]") {
  LlamaConfig grouped = small_llama();
  grouped.num_key_value_heads = 2;
  for (const NetworkConfig& network : {NetworkConfig(small_gpt2()), NetworkConfig(grouped)}) {
    const auto model = testing::ready_model(network, kTokens);
    model->set_training(false);
    const c10::NoGradGuard no_grad;
    const at::Tensor ids = at::ones({2, 24}, at::kLong).cumsum(1).mul(5).remainder(97);
    const at::Tensor whole = model->forward(ids);
    for (const std::int64_t piece : {1, 5}) {
      KeyValueCache cache;
      for (std::int64_t begin = 0; begin < 24; begin += piece) {
        const std::int64_t count = std::min(piece, 24 - begin);
        const at::Tensor logits = model->forward(ModelInput{.values = ids.narrow(1, begin, count), .cache = &cache});
        CHECK(testing::difference(logits, whole.narrow(1, begin, count)) <= 1e-4);
      }
    }
  }
}

}  // namespace
}  // namespace trainctl
