// Our fastText against stock PyTorch's EmbeddingBag.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>

#include "model/recorded_model.h"

namespace trainctl::model::fasttext_test {
namespace {

const InputSpec kTokens{.shape = {24}, .num_classes = 5, .vocab_size = 97};

FastTextConfig small_fasttext(std::int64_t min_ngram, std::int64_t max_ngram) {
  return {.embedding_size = 16, .min_ngram = min_ngram, .max_ngram = max_ngram, .num_buckets = 53};
}

TEST_CASE("fasttext is PyTorch's EmbeddingBag over the same n-grams, and the other way", "[model]") {
  testing::check_both_ways("torch_fasttext.py",
                           {{"words", small_fasttext(1, 2), kTokens}, {"characters", small_fasttext(2, 4), kTokens}});
}

TEST_CASE("fasttext doesn't read padding, on either side", "[model]") {
  const auto model = testing::ready_model(small_fasttext(1, 3), kTokens);
  const c10::NoGradGuard no_grad;
  model->visit_parameters([](const std::string&, TensorDecl& decl) { decl.value.uniform_(-1, 1); });
  const at::Tensor ids = at::randint(97, {1, 24}, at::kLong);
  const at::Tensor alone = model->forward(ids.narrow(1, 4, 10));
  at::Tensor key_mask = at::ones({1, 24}, at::kBool);
  key_mask.narrow(1, 0, 4).fill_(false);
  key_mask.narrow(1, 14, 10).fill_(false);
  CHECK(testing::difference(model->forward(ModelInput{.values = ids, .key_mask = key_mask}), alone) <= 1e-6);
}

TEST_CASE("a sequence shorter than each n-gram has the bias alone", "[model]") {
  const auto model = testing::ready_model(small_fasttext(3, 6), kTokens);
  const c10::NoGradGuard no_grad;
  model->visit_parameters([](const std::string&, TensorDecl& decl) { decl.value.fill_(2); });
  for (const std::int64_t length : {1, 2})
    CHECK(model->forward(at::ones({3, length}, at::kLong)).equal(at::full({3, 5}, 2.0F)));
  CHECK(model->forward(at::ones({1, 3}, at::kLong)).equal(at::full({1, 5}, 2.0F + 16 * 4)));
}

}  // namespace
}  // namespace trainctl::model::fasttext_test
