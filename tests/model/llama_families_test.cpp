// The families of llama against transformers' classes: logits, loss, every gradient, twenty steps of AdamW, from the
// same weights; and the other way. Sequences are longer than every sliding window.
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/linear_cross_entropy.h"
#include "model/recorded_model.h"
#include "support/llama_families.h"

namespace trainctl::model::llama_families_test {
namespace {

const InputSpec kTokens{.shape = {24}, .vocab_size = testing::kFamilyVocabulary};

/// Logits are never held whole.
at::Tensor chunked_loss(Model& model, const ModelInput& input, const at::Tensor& labels) {
  return model.forward_into_head(input, [&](VocabularyHead& head, const at::Tensor& hidden) {
    return kernels::linear_cross_entropy(head.transform(hidden).flatten(0, 1), head.weight(), head.bias(),
                                         labels.flatten(),
                                         {.label_smoothing = 0, .chunk_size = 16, .softcap = head.logit_softcap()});
  });
}

/// With weights whose outputs differ visibly.
std::unique_ptr<Model> spread_model(const LlamaConfig& config) {
  std::unique_ptr<Model> model = testing::ready_model(config, kTokens);
  model->set_training(false);
  const c10::NoGradGuard no_grad;
  for (const NamedTensor& named : named_parameters(*model))
    named.tensor.add_(at::randn(named.tensor.sizes()).mul_(0.2));
  return model;
}

TEST_CASE("each family of llama is transformers'", "[model][reference]") {
  std::vector<testing::RecordedCase> cases;
  for (const auto& [name, config] : testing::llama_families()) cases.push_back({name, config, kTokens});
  cases.push_back({"qwen3-padded", testing::small_qwen3(), kTokens});
  cases.push_back({"gemma2-padded", testing::small_gemma2(), kTokens});
  testing::check_both_ways("transformers_families.py", cases, {testing::plain_loss, chunked_loss});
}

TEST_CASE("a cache gives each family's logits token by token, and in pieces", "[model]") {
  for (const auto& [name, config] : testing::llama_families()) {
    if (config.rope_scaling.get_if<LongRopeConfig>() != nullptr) continue;  // turns by the length that it knows
    INFO(name);
    const auto model = spread_model(config);
    const c10::NoGradGuard no_grad;
    const at::Tensor ids = at::randint(testing::kFamilyVocabulary, {2, 24}, at::kLong);
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

TEST_CASE("documents packed into a row see only themselves in each family", "[model]") {
  for (const auto& [name, config] : testing::llama_families()) {
    INFO(name);
    const auto model = spread_model(config);
    const c10::NoGradGuard no_grad;
    const at::Tensor ids = at::randint(testing::kFamilyVocabulary, {1, 24}, at::kLong);
    at::Tensor documents = at::zeros_like(ids);
    documents.narrow(1, 10, 14).fill_(1);
    const at::Tensor packed = model->forward(ModelInput{.values = ids, .documents = documents});
    CHECK(testing::difference(packed.narrow(1, 0, 10), model->forward(ids.narrow(1, 0, 10))) <= 1e-5);
    CHECK(testing::difference(packed.narrow(1, 10, 14), model->forward(ids.narrow(1, 10, 14))) <= 1e-5);
  }
}

TEST_CASE("a token outside the window changes nothing, and one inside does", "[model]") {
  LlamaConfig config = testing::llama_of_two_layers();
  config.num_layers = 1;
  config.sliding_window = 4;
  const auto model = spread_model(config);
  const c10::NoGradGuard no_grad;
  const at::Tensor ids = at::randint(testing::kFamilyVocabulary, {1, 12}, at::kLong);
  const at::Tensor before = model->forward(ids).select(1, 11);
  for (const std::int64_t place : {7, 8}) {
    at::Tensor other = ids.clone();
    other.select(1, place).add_(1).remainder_(testing::kFamilyVocabulary);
    const bool is_same = testing::difference(model->forward(other).select(1, 11), before) == 0;
    CHECK(is_same == (place == 7));
  }
}

}  // namespace
}  // namespace trainctl::model::llama_families_test
