#include "model/freeze.h"

#include <catch2/catch.hpp>

#include <set>

#include "core/error.h"
#include "model/recorded_model.h"

namespace trainctl::model::freeze_test {
namespace {

const InputSpec kImages{.shape = {3, 16, 16}, .num_classes = 5};

NetworkConfig small_vit() {
  return VitConfig{.hidden_size = 16, .num_layers = 3, .num_heads = 2, .intermediate_size = 32, .patch_size = 4};
}

std::unique_ptr<Model> frozen(const NetworkConfig& network, std::vector<std::string> patterns) {
  ModelConfig config = testing::with_network(network);
  config.freeze = std::move(patterns);
  auto model = build(config, kImages);
  materialize(*model, at::kCPU, 1, /*channels_last=*/false);
  return model;
}

std::set<std::string> trained(Model& model) {
  std::set<std::string> names;
  for (const NamedTensor& named : named_parameters(model))
    if (named.tensor.requires_grad()) names.insert(named.name);
  return names;
}

std::string failure(std::vector<std::string> patterns) {
  try {
    frozen(small_vit(), std::move(patterns));
  } catch (const core::Error& error) {
    return error.text();
  }
  return "";
}

TEST_CASE("freezing leaves to train what no pattern fits, and what a later pattern with ! fits", "[model]") {
  const std::set<std::string> head{"norm.weight", "norm.bias", "head.weight", "head.bias"};
  CHECK(trained(*frozen(small_vit(), {"blocks", "patch_embed", "cls_token", "pos_embed"})) == head);
  CHECK(trained(*frozen(small_vit(), {"*", "!head", "!norm.*"})) == head);
  CHECK(trained(*frozen(small_vit(), {"!head", "*", "!head.bias"})) == std::set<std::string>{"head.bias"});
  const std::set<std::string> all = trained(*frozen(small_vit(), {}));
  std::set<std::string> expected;
  for (const std::string& name : all)
    if (!name.starts_with("blocks.0.") && !name.starts_with("blocks.1.")) expected.insert(name);
  CHECK(trained(*frozen(small_vit(), {"blocks.[01]"})) == expected);
  expected.clear();
  for (const std::string& name : all)
    if (!name.ends_with(".bias")) expected.insert(name);
  CHECK(trained(*frozen(small_vit(), {"*.bias"})) == expected);
}

TEST_CASE("a pattern that fits nothing, and a model without anything to train, are refused", "[model]") {
  CHECK(failure({"encoder"}) ==
        "model.freeze: no layer or parameter is called `encoder`\n  try: the parameters are called like 'head.weight'");
  CHECK(failure({"*", "!classifier"}).find("called `!classifier`") != std::string::npos);
  CHECK(failure({"*"}).find("freezes every parameter") != std::string::npos);
}

TEST_CASE("parameters count the blocks after their own, those of the head none", "[model]") {
  const auto vit = testing::ready_model(small_vit(), kImages);
  const auto facts = parameter_facts(*vit);
  const auto after = [&](const std::string& name) { return facts.at(name).blocks_after; };
  CHECK(after("pos_embed") == 4);
  CHECK(after("patch_embed.proj.weight") == 4);
  CHECK(after("blocks.0.norm1.weight") == 3);
  CHECK(after("blocks.2.mlp.fc2.bias") == 1);
  CHECK(after("norm.weight") == 0);
  CHECK(after("head.bias") == 0);
  CHECK(facts.size() == named_parameters(*vit).size());
}

}  // namespace
}  // namespace trainctl::model::freeze_test
