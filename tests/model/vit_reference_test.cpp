// Our vision transformer against timm's.
#include <ATen/ops/randn.h>

#include <map>

#include "core/error.h"
#include "model/recorded_model.h"

namespace trainctl::model::vit_reference_test {
namespace {

const std::string kScript = "timm_vit.py";
const InputSpec kImages{.shape = {3, 32, 32}, .num_classes = 10};

VitConfig small_vit() {
  VitConfig config;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 4;
  config.intermediate_size = 64;
  config.patch_size = 8;
  return config;
}

TEST_CASE("vit is timm's, with its class token or mean pooling, and the other way", "[model]") {
  VitConfig avg = small_vit();
  avg.pool = VitPool::avg;
  VitConfig without = avg;
  without.class_token = false;
  testing::check_both_ways(
      kScript, {{"token", small_vit(), kImages}, {"avg", avg, kImages}, {"avg-without-class-token", without, kImages}});
}

TEST_CASE("vit's names and shapes are those of timm's vit_base_patch16_224", "[model]") {
  const auto reference = testing::reference(kScript, "shapes");
  const auto model = build(testing::with_network(VitConfig{}), {.shape = {3, 224, 224}, .num_classes = 1000});
  std::map<std::string, std::vector<std::int64_t>> ours;
  model->visit_parameters([&](const std::string& name, TensorDecl& decl) { ours[name] = decl.value.sizes().vec(); });
  std::map<std::string, std::vector<std::int64_t>> theirs;
  for (const auto& [name, shape] : reference) {
    const auto* dims = shape.const_data_ptr<std::int64_t>();
    theirs[name] = std::vector<std::int64_t>(dims, dims + shape.numel());
  }
  CHECK(ours == theirs);
  CHECK(num_parameters(*model) == 86'567'656);
  CHECK(model->flops_per_sample() / 2e9 == Approx(17.56).epsilon(0.002));  // multiply-adds, with those of attention
}

TEST_CASE("vit starts as timm's does", "[model]") {
  const auto model = testing::ready_model(small_vit(), kImages);
  std::map<std::string, at::Tensor> parameters;
  for (const NamedTensor& named : named_parameters(*model)) parameters[named.name] = named.tensor.detach();
  CHECK(testing::largest(parameters.at("cls_token")) < 1e-5);
  CHECK(parameters.at("pos_embed").std().item<double>() == Approx(0.02).epsilon(0.1));
  CHECK(parameters.at("blocks.0.attn.qkv.weight").std().item<double>() == Approx(0.02).epsilon(0.05));
  CHECK(testing::largest(parameters.at("blocks.0.attn.qkv.bias")) == 0);
  const double bound = 1 / std::sqrt(3 * 8 * 8.0);
  CHECK(testing::largest(parameters.at("patch_embed.proj.weight")) == Approx(bound).epsilon(0.01));
}

TEST_CASE("vit's dropouts and stochastic depth are active while training only", "[model]") {
  for (double VitConfig::*rate :
       {&VitConfig::dropout, &VitConfig::attention_dropout, &VitConfig::head_dropout, &VitConfig::drop_path}) {
    VitConfig config = small_vit();
    config.*rate = 0.5;
    const auto model = testing::ready_model(config, kImages);
    const at::Tensor images = at::randn({16, 3, 32, 32});
    const c10::NoGradGuard no_grad;
    CHECK(testing::largest(model->forward(images).sub(model->forward(images))) > 0);
    model->set_training(false);
    CHECK(testing::largest(model->forward(images).sub(model->forward(images))) == 0);
  }
}

TEST_CASE("stochastic depth leaves out whole samples and keeps the mean", "[model]") {
  VitConfig config = small_vit();
  config.drop_path = 0.5;
  const auto model = testing::ready_model(config, kImages);
  const Block& last = model->blocks()[2];
  const at::Tensor tokens = at::randn({1, 17, 32}).expand({256, 17, 32});
  const c10::NoGradGuard no_grad;
  const at::Tensor added = last.forward(tokens, {}).sub(tokens).flatten(1).abs().amax(1);  // [256]
  const auto untouched = added.eq(0).sum().item<std::int64_t>();  // both branches left out: a quarter
  CHECK(untouched > 32);
  CHECK(untouched < 96);
  CHECK(model->blocks()[1].forward(tokens, {}).sub(tokens).flatten(1).abs().amax(1).eq(0).sum().item<int>() == 0);
}

TEST_CASE("what a vit can't be is refused with a reason", "[model]") {
  VitConfig patches = small_vit();
  patches.patch_size = 7;
  CHECK_THROWS_WITH(build(testing::with_network(patches), kImages), Catch::Contains("patches of 7"));
  VitConfig pool = small_vit();
  pool.class_token = false;
  CHECK_THROWS_WITH(build(testing::with_network(pool), kImages), Catch::Contains("class token"));
  VitConfig distilled = small_vit();
  distilled.pool = VitPool::distilled;
  CHECK_THROWS_WITH(build(testing::with_network(distilled), kImages), Catch::Contains("no distillation token"));
  CHECK_THROWS_AS(build(testing::with_network(small_vit()), {.shape = {24}, .num_classes = 2, .vocab_size = 9}),
                  core::Error);
}

}  // namespace
}  // namespace trainctl::model::vit_reference_test
