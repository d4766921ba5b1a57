// Low-rank adapters: which layers get them, what they add, what is trained, and what merging leaves.
#include "model/lora.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

#include <set>

#include "core/error.h"
#include "model/recorded_model.h"

namespace trainctl::model::lora_test {
namespace {

const InputSpec kPairs{.shape = {24}, .num_classes = 5, .vocab_size = 97};
const InputSpec kTokens{.shape = {24}, .vocab_size = 97};

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

Gpt2Config small_gpt2() {
  Gpt2Config config;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 4;
  config.max_position_embeddings = 64;
  config.dropout = config.attention_dropout = 0;
  return config;
}

LoraConfig adapters_on(std::vector<std::string> targets) {
  return {.rank = 4, .alpha = 8, .dropout = 0, .target_modules = std::move(targets), .modules_to_save = {}};
}

std::unique_ptr<Model> adapted(const NetworkConfig& network, const InputSpec& input, const LoraConfig& lora) {
  ModelConfig config = testing::with_network(network);
  config.lora = lora;
  auto model = build(config, input);
  materialize(*model, at::kCPU, 1, /*channels_last=*/false);
  return model;
}

at::Tensor some_ids() {
  return at::ones({3, 24}, at::kLong).flatten().cumsum(0).mul(7).remainder(97).reshape({3, 24});
}

std::set<std::string> names(Model& model, bool trainable_only) {
  std::set<std::string> found;
  for (const NamedTensor& named : named_parameters(model))
    if (!trainable_only || named.tensor.requires_grad()) found.insert(named.name);
  return found;
}

/// As if it had been trained.
void fill_adapters(Model& model) {
  const c10::NoGradGuard no_grad;
  for (NamedTensor& named : named_parameters(model))
    if (is_adapter(named.name)) named.tensor.copy_(at::randn(named.tensor.sizes()).mul(0.1));
}

TEST_CASE("adapters add nothing at first, and the rest starts as without them", "[model]") {
  for (const auto& [network, input, target] : {std::tuple{NetworkConfig(small_bert()), kPairs, "query"},
                                               std::tuple{NetworkConfig(small_gpt2()), kTokens, "c_attn"}}) {
    const auto plain = testing::ready_model(network, input);
    const auto model = adapted(network, input, adapters_on({target}));
    CHECK(names(*model, false).size() == names(*plain, false).size() + 4);
    CHECK(model->forward(some_ids()).equal(plain->forward(some_ids())));
  }
}

TEST_CASE("merged adapters give what they gave apart, under the names of the model without them", "[model]") {
  for (const auto& [network, input, targets] :
       {std::tuple{NetworkConfig(small_bert()), kPairs,
                   std::vector<std::string>{"query", "value", "*.intermediate.dense"}},
        std::tuple{NetworkConfig(small_gpt2()), kTokens, std::vector<std::string>{"c_attn", "mlp.c_*"}}}) {
    const auto model = adapted(network, input, adapters_on(targets));
    fill_adapters(*model);
    testing::make_double(*model);  // the two ways add in another order
    const c10::NoGradGuard no_grad;
    const at::Tensor apart = model->forward(some_ids());
    const auto plain = testing::ready_model(network, input);
    testing::make_double(*plain);
    CHECK(testing::difference(apart, plain->forward(some_ids())) > 1e-3);
    merge_adapters(*model);
    CHECK(testing::difference(model->forward(some_ids()), apart) <= 1e-12);
    CHECK(names(*model, false) == names(*plain, false));
    merge_adapters(*model);  // nothing is left to merge
    CHECK(testing::difference(model->forward(some_ids()), apart) <= 1e-12);
  }
}

TEST_CASE("only adapters and the fresh head are trained", "[model]") {
  const auto model = adapted(small_bert(), kPairs, adapters_on({"query", "value"}));
  std::set<std::string> expected{"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight",
                                 "classifier.bias"};
  for (const std::string layer : {"0", "1"})
    for (const std::string target : {"query", "value"})
      for (const std::string matrix : {"lora_A", "lora_B"})
        expected.insert("bert.encoder.layer." + layer + ".attention.self." + target + "." + matrix + ".weight");
  CHECK(names(*model, true) == expected);

  model->forward(some_ids()).sum().backward();
  for (NamedTensor& named : named_parameters(*model)) {
    INFO(named.name);
    CHECK(named.tensor.grad().defined() == expected.contains(named.name));
  }
}

TEST_CASE("both heads of a distilled vit are trained beside adapters", "[model][regression]") {
  VitConfig vit{.hidden_size = 16, .num_layers = 1, .num_heads = 2, .intermediate_size = 32, .patch_size = 4};
  vit.distillation_token = true;
  vit.pool = VitPool::distilled;
  const auto trained = names(*adapted(vit, {.shape = {3, 8, 8}, .num_classes = 5}, adapters_on({"attn.proj"})), true);
  CHECK(trained.contains("head.weight"));
  CHECK(trained.contains("head_dist.weight"));
  CHECK(trained.contains("head_dist.bias"));
}

TEST_CASE("names choose layers whole, by their end, and with wildcards", "[model]") {
  const auto count = [](std::vector<std::string> targets) {
    const auto model = adapted(small_bert(), kPairs, adapters_on(std::move(targets)));
    std::size_t adapters = 0;
    for (const std::string& name : names(*model, false)) adapters += name.ends_with("lora_A.weight") ? 1 : 0;
    return adapters;
  };
  CHECK(count({"bert.encoder.layer.0.attention.self.query"}) == 1);
  CHECK(count({"self.query"}) == 2);
  CHECK(count({"*.layer.1.*.dense"}) == 3);
  CHECK(count({"*.layer.1.a*.dense"}) == 1);
  CHECK(count({"layer.?.output.dense"}) == 2);
  CHECK(count({"*"}) == 12);  // the pooler and the classifier are trained in full
  CHECK(count({"dense", "*dense"}) == 6);
}

TEST_CASE("modules_to_save names layers and parameters", "[model]") {
  LoraConfig lora = adapters_on({"query"});
  lora.modules_to_save = std::vector<std::string>{"LayerNorm", "layer.0.attention.self.key", "classifier.bias"};
  const auto trained = names(*adapted(small_bert(), kPairs, lora), true);
  CHECK(trained.contains("bert.embeddings.LayerNorm.weight"));
  CHECK(trained.contains("bert.encoder.layer.1.output.LayerNorm.bias"));
  CHECK(trained.contains("bert.encoder.layer.0.attention.self.key.weight"));
  CHECK_FALSE(trained.contains("bert.encoder.layer.1.attention.self.key.weight"));
  CHECK(trained.contains("classifier.bias"));
  CHECK_FALSE(trained.contains("classifier.weight"));
  lora.modules_to_save = std::vector<std::string>{};
  CHECK(names(*adapted(small_bert(), kPairs, lora), true).size() == 4);
}

TEST_CASE("names that match nothing are refused, with what there is", "[model]") {
  CHECK_THROWS_AS(adapted(small_bert(), kPairs, adapters_on({"q_proj"})), core::Error);
  try {
    adapted(small_bert(), kPairs, adapters_on({"q_proj"}));
  } catch (const core::Error& error) {
    CHECK_THAT(error.text(), Catch::Contains("q_proj") && Catch::Contains("query") && Catch::Contains("dense"));
  }
  LoraConfig lora = adapters_on({"query"});
  lora.modules_to_save = std::vector<std::string>{"clasifier"};
  CHECK_THROWS_WITH(adapted(small_bert(), kPairs, lora), Catch::Contains("clasifier"));
}

TEST_CASE("adapters on layers that are all trained in full are refused", "[model]") {
  CHECK_THROWS_WITH(adapted(small_bert(), kPairs, adapters_on({"classifier"})),
                    Catch::Contains("no layer gets an adapter: model.lora.modules_to_save trains these in full"));
  LoraConfig lora = adapters_on({"classifier"});
  lora.modules_to_save = std::vector<std::string>{};
  CHECK(names(*adapted(small_bert(), kPairs, lora), true).contains("classifier.lora_A.weight"));
}

TEST_CASE("a block's parameters include its adapters, and no others", "[model]") {
  const auto model = adapted(small_bert(), kPairs, adapters_on({"query"}));
  std::size_t in_blocks = 0;
  for (const Block& block : model->blocks())
    block.layer->visit_parameters([&](const std::string& name, TensorDecl&) {
      ++in_blocks;
      if (is_adapter(name)) CHECK(block.name.starts_with("bert.encoder.layer."));
    });
  CHECK(in_blocks == named_parameters(*model).size());
}

TEST_CASE("an adapter's dropout is active while training only", "[model]") {
  LoraConfig lora = adapters_on({"query"});
  lora.dropout = 0.5;
  const auto model = adapted(small_bert(), kPairs, lora);
  fill_adapters(*model);
  const c10::NoGradGuard no_grad;
  CHECK_FALSE(model->forward(some_ids()).equal(model->forward(some_ids())));
  model->set_training(false);
  CHECK(model->forward(some_ids()).equal(model->forward(some_ids())));
}

TEST_CASE("training adapters alone lowers the loss", "[model]") {
  const auto model = adapted(small_gpt2(), kTokens, adapters_on({"c_attn", "c_fc", "c_proj"}));
  std::vector<at::Tensor> trained;
  for (const NamedTensor& named : named_parameters(*model))
    if (named.tensor.requires_grad()) trained.push_back(named.tensor);
  const at::Tensor ids = some_ids();
  const at::Tensor labels = ids.add(7).remainder(97);
  double first = 0;
  double last = 0;
  for (int step = 0; step < 30; ++step) {
    for (at::Tensor& parameter : trained) parameter.mutable_grad() = at::Tensor();
    const at::Tensor loss = testing::plain_loss(*model, {.values = ids}, labels).div(labels.numel());
    (step == 0 ? first : last) = loss.item<double>();
    loss.backward();
    const c10::NoGradGuard no_grad;
    for (at::Tensor& parameter : trained) parameter.sub_(parameter.grad().mul(2));
  }
  CHECK(last < first - 0.1);
}

}  // namespace
}  // namespace trainctl::model::lora_test
