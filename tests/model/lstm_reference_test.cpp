// Our LSTM against stock PyTorch's.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

#include "core/error.h"
#include "model/recorded_model.h"

namespace trainctl::model::lstm_reference_test {
namespace {

const std::string kScript = "torch_lstm.py";

InputSpec tokens(std::int64_t num_classes = 0) {
  return {.shape = {24}, .num_classes = num_classes, .vocab_size = 97};
}

LstmConfig small_lstm() {
  LstmConfig config;
  config.hidden_size = 16;
  config.embedding_size = 12;
  config.dropout = 0;
  return config;
}

LstmConfig tied_lstm() {
  LstmConfig config = small_lstm();
  config.embedding_size = {};
  config.tie_embeddings = true;
  return config;
}

at::Tensor some_ids(std::int64_t rows) {
  return at::ones({rows, 24}, at::kLong).flatten().cumsum(0).mul(7).remainder(97).reshape({rows, 24});
}

TEST_CASE("lstm is PyTorch's: language model, tied or not, and classifiers of padded rows; and the other way",
          "[model]") {
  LstmConfig bidirectional = small_lstm();
  bidirectional.bidirectional = true;
  testing::check_both_ways(kScript, {{"language-model", small_lstm(), tokens()},
                                     {"tied", tied_lstm(), tokens()},
                                     {"classification", small_lstm(), tokens(5)},
                                     {"bidirectional", bidirectional, tokens(5)}});
}

TEST_CASE("an lstm doesn't read padding, on either side", "[model]") {
  LstmConfig config = small_lstm();
  config.bidirectional = true;
  const auto model = testing::ready_model(config, tokens(5));
  const c10::NoGradGuard no_grad;
  const at::Tensor ids = some_ids(1);
  const at::Tensor alone = model->forward(ids.narrow(1, 4, 10));
  at::Tensor key_mask = at::ones({1, 24}, at::kBool);
  key_mask.narrow(1, 0, 4).fill_(false);
  key_mask.narrow(1, 14, 10).fill_(false);
  for (const std::int64_t padding : {0, 3}) {
    at::Tensor padded = ids.clone();
    padded.masked_fill_(key_mask.logical_not(), padding);
    CHECK(testing::difference(model->forward(ModelInput{.values = padded, .key_mask = key_mask}), alone) <= 1e-6);
  }
}

TEST_CASE("an lstm starts anew at each document of a row", "[model]") {
  const auto model = testing::ready_model(small_lstm(), tokens());
  const c10::NoGradGuard no_grad;
  const at::Tensor ids = some_ids(2);
  at::Tensor documents = at::zeros_like(ids);
  documents[0].narrow(0, 10, 14).fill_(1);
  documents[1].narrow(0, 3, 21).fill_(1);
  documents[1].narrow(0, 4, 20).fill_(2);
  const at::Tensor packed = model->forward(ModelInput{.values = ids, .documents = documents});
  const auto check = [&](std::int64_t row, std::int64_t begin, std::int64_t count) {
    const at::Tensor alone = model->forward(ids.narrow(0, row, 1).narrow(1, begin, count));
    CHECK(testing::difference(packed.narrow(0, row, 1).narrow(1, begin, count), alone) <= 1e-6);
  };
  check(0, 0, 10);
  check(0, 10, 14);
  check(1, 0, 3);
  check(1, 3, 1);
  check(1, 4, 20);
}

TEST_CASE("an lstm with a cache goes on where it stood", "[model]") {
  const auto model = testing::ready_model(tied_lstm(), tokens());
  const c10::NoGradGuard no_grad;
  const at::Tensor ids = some_ids(2);
  const at::Tensor whole = model->forward(ids);
  for (const std::int64_t piece : {1, 5}) {
    KeyValueCache cache;
    for (std::int64_t begin = 0; begin < 24; begin += piece) {
      const std::int64_t count = std::min(piece, 24 - begin);
      const at::Tensor logits = model->forward(ModelInput{.values = ids.narrow(1, begin, count), .cache = &cache});
      CHECK(testing::difference(logits, whole.narrow(1, begin, count)) <= 1e-5);
    }
    CHECK(cache.length() == 24);
  }
}

TEST_CASE("lstm's dropout is active while training only", "[model]") {
  for (const std::int64_t layers : {1, 2}) {
    LstmConfig config = small_lstm();
    config.num_layers = layers;
    config.dropout = 0.5;
    const auto model = testing::ready_model(config, tokens());
    const c10::NoGradGuard no_grad;
    const at::Tensor ids = some_ids(2);
    CHECK(testing::largest(model->forward(ids).sub(model->forward(ids))) > 0);
    model->set_training(false);
    CHECK(testing::largest(model->forward(ids).sub(model->forward(ids))) == 0);
  }
}

TEST_CASE("what an lstm can't be is refused with a reason", "[model]") {
  LstmConfig bidirectional = small_lstm();
  bidirectional.bidirectional = true;
  CHECK_THROWS_WITH(build(testing::with_network(bidirectional), tokens()), Catch::Contains("bidirectional"));
  LstmConfig tied = small_lstm();
  tied.tie_embeddings = true;
  CHECK_THROWS_WITH(build(testing::with_network(tied), tokens()), Catch::Contains("embedding_size"));
  const auto model = testing::ready_model(small_lstm(), tokens(5));
  const at::Tensor none = at::zeros({2, 24}, at::kBool);
  CHECK_THROWS_WITH(model->forward(ModelInput{.values = some_ids(2), .key_mask = none}), Catch::Contains("padding"));
}

}  // namespace
}  // namespace trainctl::model::lstm_reference_test
