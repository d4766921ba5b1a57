// Our GPT-2 and Llama against transformers': logits, loss, every gradient, twenty steps of AdamW, from the same
// weights; and the other way.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_cross_entropy.h"
#include "model/recorded_model.h"

namespace trainctl::model::causal_reference_test {
namespace {

const InputSpec kTokens{.shape = {24}, .vocab_size = 97};

Gpt2Config small_gpt2() {
  Gpt2Config config;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 4;
  config.max_position_embeddings = 64;
  config.dropout = config.attention_dropout = 0;
  return config;
}

LlamaConfig small_llama() {
  LlamaConfig config;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 4;
  config.intermediate_size = 64;
  config.max_position_embeddings = 64;
  return config;
}

LlamaConfig scaled_llama(RopeScalingConfig scaling, std::int64_t max_position_embeddings = 64) {
  LlamaConfig config = small_llama();
  config.rope_scaling = std::move(scaling);
  config.max_position_embeddings = max_position_embeddings;
  return config;
}

YarnRopeConfig yarn() {
  YarnRopeConfig config;
  config.factor = 4;
  config.original_max_position_embeddings = 16;
  return config;
}

LongRopeConfig longrope() {
  LongRopeConfig config;
  for (int i = 0; i < 4; ++i) config.short_factor.push_back(1 + 0.1 * i), config.long_factor.push_back(2 + 0.5 * i);
  config.original_max_position_embeddings = 16;
  config.factor = 4;
  return config;
}

/// Logits are never held whole.
at::Tensor chunked_loss(Model& model, const ModelInput& input, const at::Tensor& labels) {
  return model.forward_into_head(input, [&](VocabularyHead& head, const at::Tensor& hidden) {
    return kernels::linear_cross_entropy(head.transform(hidden).flatten(0, 1), head.weight(), head.bias(),
                                         labels.flatten(), {.label_smoothing = 0, .chunk_size = 16});
  });
}

TEST_CASE("gpt2, and llama with grouped queries, tied embeddings and every rotary scaling, are transformers'",
          "[model]") {
  LlamaConfig grouped = small_llama();
  grouped.num_key_value_heads = 2;
  LlamaConfig tied = small_llama();
  tied.tie_embeddings = true;
  const Llama3RopeConfig llama3{
      .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_max_position_embeddings = 16};
  const std::vector<std::pair<std::string, NetworkConfig>> networks{
      {"gpt2", small_gpt2()},
      {"gpt2-padded", small_gpt2()},
      {"llama", small_llama()},
      {"llama-padded", small_llama()},
      {"llama-gqa", grouped},
      {"llama-tied", tied},
      {"llama-linear", scaled_llama(LinearRopeConfig{.factor = 2})},
      {"llama-dynamic", scaled_llama(DynamicRopeConfig{.factor = 2}, 16)},  // shorter than the sequence: it scales
      {"llama-yarn", scaled_llama(yarn())},
      {"llama-longrope", scaled_llama(longrope())},
      {"llama-llama3", scaled_llama(llama3)}};
  std::vector<testing::RecordedCase> cases;
  for (const auto& [part, network] : networks) cases.push_back({part, network, kTokens});
  testing::check_both_ways("transformers_causal.py", cases, {testing::plain_loss, chunked_loss});
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
}  // namespace trainctl::model::causal_reference_test
