// Our GPT-2 and Llama against transformers': logits, loss, every gradient, twenty steps of AdamW, from the same
// weights; and the other way.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_cross_entropy.h"
#include "model/layers/rope.h"
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

/// The factors of the recorded cosines.
LongRopeConfig rising_longrope() {
  LongRopeConfig config;
  config.short_factor = {1, 1.1, 1.2, 1.3};
  config.long_factor = {2, 2.5, 3, 3.5};
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

TEST_CASE("rotary frequencies follow each document's length, as transformers has them for one sequence",
          "[model][regression]") {
  // Cosines and sines at position 5 of LlamaRotaryEmbedding, transformers 5.17, for sequences of 6 and of 18 tokens.
  struct Expected {
    LlamaConfig config;
    std::vector<float> of_short;
    std::vector<float> of_long;
  };
  const std::vector<float> of_inverted{0.2836622F,  0.9980475F, 0.9999805F, 0.9999998F,
                                       -0.9589243F, 0.0624593F, 0.00625F,   0.000625F};
  // A high_freq_factor below low_freq_factor: no frequency is between the two.
  const Llama3RopeConfig inverted{
      .factor = 8, .low_freq_factor = 4, .high_freq_factor = 1, .original_max_position_embeddings = 64};
  const Expected cases[] = {
      {scaled_llama(inverted), of_inverted, of_inverted},
      {scaled_llama(rising_longrope()),
       {0.3474138F, 1.1003852F, 1.2236819F, 1.2247359F, -1.1744376F, 0.5377291F, 0.0510163F, 0.0047105F},
       {-0.9811965F, 1.2003316F, 1.2245748F, 1.2247437F, 0.7329757F, 0.2433192F, 0.0204115F, 0.0017496F}},
      {scaled_llama(DynamicRopeConfig{.factor = 2}, 16),
       {0.2836622F, 0.8775826F, 0.9987503F, 0.9999875F, -0.9589243F, 0.4794255F, 0.0499792F, 0.005F},
       {0.2836622F, 0.8941984F, 0.9990718F, 0.999992F, -0.9589243F, 0.4476708F, 0.0430754F, 0.004F}}};
  at::Tensor documents = at::zeros_like(at::ones({1, 24}, at::kLong));
  documents.narrow(1, 6, 18).fill_(1);
  const at::Tensor positions = at::cat({at::arange(6), at::arange(18)}).unsqueeze(0);
  for (const Expected& expected : cases) {
    RopeFrequencies frequencies;
    const RopeTables tables = rope_tables(expected.config, positions,
                                          {.longest = 24, .by_token = lengths_of_documents(documents)}, frequencies);
    const auto at_token = [&](std::int64_t token) {
      return at::cat({tables.cosine.select(1, token), tables.sine.select(1, token)}, -1).flatten();
    };
    CHECK(testing::largest(at_token(5).sub(at::tensor(expected.of_short))) <= 1e-6);
    CHECK(testing::largest(at_token(11).sub(at::tensor(expected.of_long))) <= 1e-6);
  }
}

TEST_CASE("rotary frequencies are copied to a device once", "[model]") {
  RopeFrequencies frequencies;
  const at::Tensor first = frequencies.on(at::kCPU, {1, 0.5});
  CHECK(first.is_same(frequencies.on(at::kCPU, {1, 0.5})));
  CHECK(frequencies.on(at::kCPU, {1, 0.25}).equal(at::tensor({1.0F, 0.25F})));
  for (const double other : {0.1, 0.2, 0.3}) frequencies.on(at::kCPU, {1, other});
  CHECK_FALSE(first.is_same(frequencies.on(at::kCPU, {1, 0.5})));
  CHECK(first.equal(frequencies.on(at::kCPU, {1, 0.5})));
}

TEST_CASE("documents in a row, and Phi-3's cache, don't change networks whose frequencies follow the length",
          "[model][regression]") {
  LlamaConfig phi3 = scaled_llama(longrope());
  phi3.fused_projections = true;
  for (const LlamaConfig& config : {phi3, scaled_llama(DynamicRopeConfig{.factor = 2}, 16)}) {
    const auto model = testing::ready_model(config, kTokens);
    model->set_training(false);
    const c10::NoGradGuard no_grad;
    for (const NamedTensor& named : named_parameters(*model)) named.tensor.mul_(4);  // so that outputs differ visibly
    const at::Tensor ids = at::ones({1, 24}, at::kLong).cumsum(1).mul(7).remainder(97);
    at::Tensor documents = at::zeros_like(ids);
    documents.narrow(1, 6, 18).fill_(1);
    const at::Tensor packed = model->forward(ModelInput{.values = ids, .documents = documents});
    CHECK(testing::difference(packed.narrow(1, 0, 6), model->forward(ids.narrow(1, 0, 6))) <= 1e-5);
    CHECK(testing::difference(packed.narrow(1, 6, 18), model->forward(ids.narrow(1, 6, 18))) <= 1e-5);
    if (!config.fused_projections) continue;  // the cache keeps each key as its own step turned it
    for (const std::int64_t piece : {1, 5}) {
      KeyValueCache cache;
      for (std::int64_t begin = 0; begin < 24; begin += piece) {
        const std::int64_t count = std::min(piece, 24 - begin);
        const at::Tensor logits = model->forward(ModelInput{.values = ids.narrow(1, begin, count), .cache = &cache});
        const at::Tensor whole = model->forward(ids.narrow(1, 0, begin + count));
        CHECK(testing::difference(logits, whole.narrow(1, begin, count)) <= 1e-4);
      }
    }
  }
}

}  // namespace
}  // namespace trainctl::model::causal_reference_test
