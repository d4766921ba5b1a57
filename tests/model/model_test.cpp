#include "model/model.h"

#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>

#include <map>
#include <set>

#include "core/error.h"
#include "model/model_support.h"
#include "support/map_state.h"

namespace trainctl::model::model_test {
namespace {

using testing::ready_model;
using testing::with_network;

const InputSpec kGrey28{.shape = {1, 28, 28}, .num_classes = 10};
const InputSpec kColour32{.shape = {3, 32, 32}, .num_classes = 10};

std::vector<std::string> names(Model& model) {
  std::vector<std::string> names;
  for (const NamedTensor& named : named_parameters(model)) names.push_back(named.name);
  return names;
}

TEST_CASE("parameters are named by the path to them", "[model]") {
  const auto mlp = build(with_network(MlpConfig{.hidden = {8}, .dropout = 0, .num_classes = {}}), kGrey28);
  CHECK(names(*mlp) == std::vector<std::string>{"hidden1.linear.weight", "hidden1.linear.bias", "head.linear.weight",
                                                "head.linear.bias"});
  CnnConfig config;
  config.channels = {4};
  config.batch_norm = true;
  const auto cnn = build(with_network(config), kGrey28);
  CHECK(names(*cnn) == std::vector<std::string>{"layer1.conv.weight", "layer1.bn.weight", "layer1.bn.bias",
                                                "head.hidden.weight", "head.hidden.bias", "head.fc.weight",
                                                "head.fc.bias"});
  CHECK(named_buffers(*cnn).at(2).name == "layer1.bn.num_batches_tracked");
}

TEST_CASE("every parameter belongs to exactly one block, and a forward pass runs the blocks in order", "[model]") {
  WideResNetConfig wide;
  wide.depth = 10;
  wide.widen_factor = 1;
  ResNetConfig<18> resnet;
  resnet.stem = ResNetStem::cifar;
  for (const NetworkConfig& network :
       {NetworkConfig(MlpConfig{}), NetworkConfig(CnnConfig{}), NetworkConfig(wide), NetworkConfig(resnet)}) {
    const auto model = ready_model(network, kColour32);
    std::size_t in_blocks = 0;
    for (const Block& block : model->blocks())
      block.layer->visit_parameters([&](const std::string&, TensorDecl&) { ++in_blocks; });
    CHECK(in_blocks == named_parameters(*model).size());

    std::vector<std::string> ran;
    model->set_block_runner([&](const Block& block, const at::Tensor& input, const SequenceContext& context) {
      ran.push_back(block.name);
      return block.forward(input, context);
    });
    const at::Tensor logits = model->forward(at::randn({2, 3, 32, 32}));
    CHECK(logits.sizes() == at::IntArrayRef({2, 10}));
    std::vector<std::string> expected;
    for (const Block& block : model->blocks()) expected.push_back(block.name);
    CHECK(ran == expected);
    CHECK(std::set<std::string>(ran.begin(), ran.end()).size() == ran.size());
  }
}

TEST_CASE("first values are a function of seed, name and shape alone", "[model]") {
  const auto a = ready_model(CnnConfig{}, kGrey28, 5);
  const auto same = ready_model(CnnConfig{}, kGrey28, 5);
  const auto other = ready_model(CnnConfig{}, kGrey28, 6);
  // Another network that happens to have a parameter of the same name and shape.
  CnnConfig shorter_config;
  shorter_config.channels = {16};
  shorter_config.hidden = 0;
  const auto shorter = ready_model(shorter_config, kGrey28, 5);
  const auto parameters = named_parameters(*a);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    CHECK(parameters[i].tensor.equal(named_parameters(*same)[i].tensor));
    CHECK_FALSE(parameters[i].tensor.equal(named_parameters(*other)[i].tensor));
    CHECK(parameters[i].tensor.requires_grad());
  }
  CHECK(named_parameters(*shorter)[0].tensor.equal(parameters[0].tensor));
}

TEST_CASE("channels-last weights have the same values in another layout", "[model]") {
  const auto contiguous = ready_model(CnnConfig{}, kColour32, 5);
  const auto channels_last = build(with_network(CnnConfig{}), kColour32);
  materialize(*channels_last, at::kCPU, 5, /*channels_last=*/true);
  const auto a = named_parameters(*contiguous);
  const auto b = named_parameters(*channels_last);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i].tensor.equal(b[i].tensor));
  CHECK(b[0].tensor.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(a[0].tensor.is_contiguous());
}

TEST_CASE("first values have PyTorch's spread", "[model]") {
  const auto model = ready_model(MlpConfig{.hidden = {512}, .dropout = 0, .num_classes = {}}, kGrey28);
  const double bound = 1 / std::sqrt(784.0);
  const at::Tensor weight = named_parameters(*model)[0].tensor;
  CHECK(testing::largest(weight) <= bound);
  CHECK(testing::largest(weight) > 0.999 * bound);
  CHECK(weight.var().item<double>() == Approx(bound * bound / 3).epsilon(0.01));

  const auto resnet = ready_model(ResNetConfig<18>{}, kColour32);
  std::map<std::string, at::Tensor> parameters;
  for (const NamedTensor& named : named_parameters(*resnet)) parameters[named.name] = named.tensor;
  CHECK(parameters.at("layer4.1.conv2.weight").var().item<double>() == Approx(2.0 / (9 * 512)).epsilon(0.01));
  CHECK(parameters.at("layer4.1.bn2.weight").eq(1).all().item<bool>());
}

TEST_CASE("zero_init_residual starts every residual block as the identity", "[model]") {
  ResNetConfig<50> config;
  config.zero_init_residual = true;
  const auto model = ready_model(config, kColour32);
  int zeroed = 0;
  for (const NamedTensor& named : named_parameters(*model))
    if (named.name.ends_with("bn3.weight") && testing::largest(named.tensor) == 0) ++zeroed;
  CHECK(zeroed == 16);
}

TEST_CASE("state is saved and restored under the parameters' own names", "[model]") {
  CnnConfig config;
  config.batch_norm = true;
  const auto a = ready_model(config, kGrey28, 1);
  const auto b = ready_model(config, kGrey28, 2);
  a->forward(at::randn({4, 1, 28, 28}));
  auto state = testing::MapState::of(*a);
  CHECK(state.tensors.contains("layer1.bn.running_mean"));
  state.restore_into(*b);
  CHECK(testing::MapState::of(*b).equals(state));
}

TEST_CASE("flops count every multiply-add of convolutions and linear layers twice", "[model]") {
  CnnConfig config;
  config.channels = {4, 8};
  config.hidden = 16;
  const auto cnn = build(with_network(config), kGrey28);
  CHECK(cnn->flops_per_sample() == 2.0 * (28 * 28 * 4 * 1 * 9 + 14 * 14 * 8 * 4 * 9 + 8 * 7 * 7 * 16 + 16 * 10));
  // Multiply-adds that torchvision documents for 224 pixels and 1,000 classes, in 10⁹.
  const InputSpec imagenet{.shape = {3, 224, 224}, .num_classes = 1000};
  CHECK(build(with_network(ResNetConfig<18>{}), imagenet)->flops_per_sample() / 2e9 == Approx(1.814).epsilon(0.001));
  CHECK(build(with_network(ResNetConfig<50>{}), imagenet)->flops_per_sample() / 2e9 == Approx(4.089).epsilon(0.001));
  CHECK(build(with_network(ResNetConfig<152>{}), imagenet)->flops_per_sample() / 2e9 == Approx(11.514).epsilon(0.001));
}

TEST_CASE("parameter counts are those of the papers' implementations", "[model]") {
  const InputSpec imagenet{.shape = {3, 224, 224}, .num_classes = 1000};
  CHECK(num_parameters(*build(with_network(ResNetConfig<18>{}), imagenet)) == 11'689'512);
  CHECK(num_parameters(*build(with_network(ResNetConfig<152>{}), imagenet)) == 60'192'808);
  CHECK(num_parameters(*build(with_network(WideResNetConfig{}), kColour32)) == 36'479'194);  // WRN-28-10: 36.5 million
}

TEST_CASE("what the data can't be is refused with a reason", "[model]") {
  CnnConfig even;
  even.kernel_size = 4;
  CnnConfig pools;
  pools.num_pools = 3;
  CnnConfig deep;
  deep.channels = {4, 4, 4, 4, 4};
  WideResNetConfig depth;
  depth.depth = 27;
  const InputSpec tokens{.shape = {128}, .num_classes = 1000, .vocab_size = 1000};
  const InputSpec rows{.shape = {128}, .num_classes = 10};  // of a table
  CHECK_THROWS_AS(build(with_network(MlpConfig{}), tokens), core::Error);
  CHECK_NOTHROW(build(with_network(MlpConfig{}), rows));
  CHECK_THROWS_AS(build(with_network(CnnConfig{}), rows), core::Error);
  CHECK_THROWS_AS(build(with_network(CnnConfig{}), tokens), core::Error);
  CHECK_THROWS_AS(build(with_network(ResNetConfig<34>{}), tokens), core::Error);
  CHECK_THROWS_AS(build(with_network(WideResNetConfig{}), tokens), core::Error);
  CHECK_THROWS_WITH(build(with_network(deep), kGrey28),
                    Catch::Contains("1×28×28 are too small") && Catch::Contains("convolution 5"));
  CHECK_THROWS_WITH(build(with_network(even), kGrey28), Catch::Contains("kernel_size"));
  CHECK_THROWS_WITH(build(with_network(pools), kGrey28), Catch::Contains("num_pools"));
  CHECK_THROWS_WITH(build(with_network(depth), kColour32), Catch::Contains("6 n + 4"));
  CHECK_THROWS_WITH(build(with_network(MlpConfig{.hidden = {8, 0}, .dropout = 0, .num_classes = {}}), kGrey28),
                    Catch::Contains("hidden[1]"));
  CHECK_THROWS_WITH(build(with_network(MlpConfig{.hidden = {8}, .dropout = 0, .num_classes = 12}), kGrey28),
                    Catch::Contains("12") && Catch::Contains("10 classes"));
  CHECK_THROWS_WITH(build(with_network(MlpConfig{}), InputSpec{.shape = {1, 28, 28}, .num_classes = 0}),
                    Catch::Contains("number of classes is unknown"));
  CHECK_THROWS_AS(build(with_network(MlpConfig{}), InputSpec{.shape = {1, 0, 28}, .num_classes = 10}), core::Error);
}

}  // namespace
}  // namespace trainctl::model::model_test
