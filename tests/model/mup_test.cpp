// muP: first values and learning rates by the ratio of widths, as table 3 of https://arxiv.org/abs/2203.03466 has them.
#include "model/mup.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "model/model_support.h"

namespace trainctl::model::mup_test {
namespace {

const InputSpec kTokens{.shape = {16}, .vocab_size = 97};
const InputSpec kImages{.shape = {3, 16, 16}, .num_classes = 5};
const InputSpec kRows{.shape = {24}, .num_classes = 5};

Gpt2Config gpt2(std::int64_t width) {
  return {.hidden_size = width, .num_layers = 2, .num_heads = width / 16, .max_position_embeddings = 16};
}

LlamaConfig llama(std::int64_t width) {
  return {.hidden_size = width,
          .num_layers = 2,
          .num_heads = width / 16,
          .num_key_value_heads = width / 32,
          .intermediate_size = 3 * width,
          .max_position_embeddings = 16};
}

struct Parametrized {
  std::unique_ptr<Model> model;
  std::unique_ptr<Model> base;  // the same kind at the base's width, without muP

  Parametrized(const NetworkConfig& network, std::int64_t base_width, const InputSpec& input) {
    ModelConfig config = testing::with_network(network);
    config.mup = MupConfig{.base_width = base_width};
    model = build(config, input);
    base = build(testing::with_network(at_width(network, base_width)), input);
  }

  static const TensorDecl& decl(Model& of, const std::string& name) {
    const TensorDecl* found = nullptr;
    of.visit_parameters([&](const std::string& full, TensorDecl& decl) {
      if (full == name) found = &decl;
    });
    REQUIRE(found != nullptr);
    return *found;
  }
  double lr(const std::string& name) const { return parameter_facts(*model).at(name).lr_scale; }
  /// Returns the ratio of the spreads of first values, or of the constants that they are.
  double value(const std::string& name) const {
    const Init own = decl(*model, name).init;
    const Init before = decl(*base, name).init;
    CHECK(own.kind == before.kind);
    return own.kind == Init::Kind::constant ? own.a / before.a : own.b / before.b;
  }
  void has(const std::string& name, double expected_value, double expected_lr) const {
    INFO(name);
    CHECK(value(name) == Approx(expected_value).epsilon(1e-12));
    CHECK(lr(name) == Approx(expected_lr).epsilon(1e-12));
  }
};

TEST_CASE("muP scales matrices by the square root of the width and rates by the width", "[model]") {
  const Parametrized net(llama(128), 32, kTokens);
  net.has("model.embed_tokens.weight", 1, 1);
  net.has("model.layers.0.self_attn.q_proj.weight", 0.5, 0.25);
  net.has("model.layers.1.self_attn.k_proj.weight", 0.5, 0.25);
  net.has("model.layers.1.mlp.down_proj.weight", 0.5, 0.25);
  net.has("model.layers.0.input_layernorm.weight", 1, 1);
  net.has("model.norm.weight", 1, 1);
  net.has("lm_head.weight", 0.25, 0.25);
}

TEST_CASE("muP: where embeddings are the output's weight, the norm before it takes its place", "[model]") {
  const Parametrized net(gpt2(64), 32, kTokens);
  net.has("transformer.wte.weight", 1, 1);
  net.has("transformer.wpe.weight", 1, 1);
  net.has("transformer.h.0.attn.c_attn.weight", std::sqrt(0.5), 0.5);
  net.has("transformer.h.1.mlp.c_proj.weight", std::sqrt(0.5), 0.5);
  net.has("transformer.h.1.ln_2.weight", 1, 1);
  net.has("transformer.ln_f.weight", 0.5, 0.5);
  CHECK(net.lr("transformer.ln_f.bias") == 0.5);
  CHECK(net.lr("transformer.h.0.mlp.c_fc.bias") == 1);
}

TEST_CASE("muP on rows and images: from inputs nothing changes, to outputs all by the width", "[model]") {
  const Parametrized rows(MlpConfig{.hidden = {64, 96}}, 16, kRows);
  rows.has("hidden1.linear.weight", 1, 1);
  rows.has("hidden2.linear.weight", 0.5, 0.25);
  rows.has("head.linear.weight", 0.25, 0.25);
  CHECK(rows.lr("hidden2.linear.bias") == 1);

  const Parametrized images(
      VitConfig{.hidden_size = 64, .num_layers = 2, .num_heads = 4, .intermediate_size = 128, .patch_size = 8}, 16,
      kImages);
  images.has("patch_embed.proj.weight", 1, 1);
  images.has("pos_embed", 1, 1);
  images.has("blocks.0.attn.qkv.weight", 0.5, 0.25);
  CHECK(images.lr("head.weight") == 0.25);

  const Parametrized convolutions(WideResNetConfig{.depth = 10, .widen_factor = 4}, 2, kImages);
  convolutions.has("fc.weight", 0.5, 0.5);
}

TEST_CASE("muP at the base's width is the standard parametrization", "[model]") {
  for (const NetworkConfig& network : {NetworkConfig{gpt2(32)}, NetworkConfig{llama(32)}}) {
    ModelConfig config = testing::with_network(network);
    const auto plain = build(config, kTokens);
    config.mup = MupConfig{.base_width = 32};
    const auto scaled = build(config, kTokens);
    materialize(*plain, at::kCPU, 3, /*channels_last=*/false);
    materialize(*scaled, at::kCPU, 3, /*channels_last=*/false);
    const std::vector<NamedTensor> first = named_parameters(*plain);
    const std::vector<NamedTensor> second = named_parameters(*scaled);
    REQUIRE(first.size() == second.size());
    for (std::size_t i = 0; i < first.size(); ++i) CHECK(first[i].tensor.equal(second[i].tensor));
    for (const auto& [name, facts] : parameter_facts(*scaled)) CHECK(facts.lr_scale == 1);
  }
}

TEST_CASE("muP needs a norm before an output that shares the embeddings", "[model]") {
  ModelConfig config = testing::with_network(LstmConfig{.hidden_size = 64, .tie_embeddings = true});
  config.mup = MupConfig{.base_width = 32};
  CHECK_THROWS_WITH(build(config, kTokens), Catch::Contains("no norm before it"));
}

TEST_CASE("muP needs a base with the same layers", "[model]") {
  ModelConfig config = testing::with_network(WideResNetConfig{.depth = 10, .widen_factor = 4});
  config.mup = MupConfig{.base_width = 1};  // no projection beside the first blocks
  CHECK_THROWS_WITH(build(config, kImages), Catch::Contains("the network of width 1 has no "));
}

TEST_CASE("a network at another width keeps the size of its heads", "[model]") {
  const NetworkConfig wide = at_width(NetworkConfig(llama(64)), 256);
  const auto* config = wide.get_if<LlamaConfig>();
  REQUIRE(config != nullptr);
  CHECK(config->hidden_size == 256);
  CHECK(config->num_heads == 16);
  CHECK(config->num_key_value_heads.value == 8);
  CHECK(config->intermediate_size.value == 768);
  CHECK(config->num_layers == 2);
  CHECK(size_without(NetworkConfig(llama(64)), 16) == "num_key_value_heads");
  CHECK(size_without(NetworkConfig(llama(64)), 33) == "num_heads");
  CHECK(width_of(NetworkConfig(ResNetConfig<18>{})) == std::nullopt);
}

}  // namespace
}  // namespace trainctl::model::mup_test
