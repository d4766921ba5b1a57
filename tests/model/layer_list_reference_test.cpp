// Networks as lists of layers against PyTorch's: those that configs/layers has, and lists of every other layer.
#include <cmath>
#include <functional>

#include "config/parse.h"
#include "config/read.h"
#include "model/recorded_model.h"

namespace trainctl::model::layer_list_reference_test {
namespace {

using layer_graph::Activation;
using layer_graph::ActivationLayer;
using layer_graph::LayerConfig;
using layer_graph::LayerList;

const InputSpec kImages{.shape = {3, 32, 32}, .num_classes = 10};

/// Sets every dropout to 0, since PyTorch draws other numbers.
void remove_dropout(LayerList& layers) {
  for (LayerConfig& config : layers)
    std::visit(
        []<class Layer>(Layer& layer) {
          if constexpr (std::same_as<Layer, layer_graph::DropoutLayer>) layer.p = 0;
          if constexpr (requires { layer.layers; }) remove_dropout(layer.layers);
          if constexpr (requires { layer.shortcut; }) remove_dropout(layer.shortcut);
          if constexpr (requires { layer.branches; })
            for (LayerList& branch : layer.branches) remove_dropout(branch);
        },
        config.layer.value);
}

LayersConfig read_model(const std::string& name) {
  config::Problems problems;
  const std::filesystem::path directory = std::filesystem::path(TRAINCTL_SOURCE_DIR) / "configs" / "layers";
  const auto file = config::parse_file(directory / (name + ".yaml"), problems);
  auto model = config::read<ModelConfig>(*file->find("model"), problems, "model");
  problems.throw_if_any();
  LayersConfig config = *model.network.get_if<LayersConfig>();
  remove_dropout(config.layers);
  return config;
}

LayersConfig with_layers(LayerList layers) {
  return {.layers = std::move(layers)};
}

LayersConfig language_model() {
  const LayerList attention{{layer_graph::LayerNormLayer{}},
                            {layer_graph::AttentionLayer{.num_heads = 4, .causal = true}}};
  const LayerList feed_forward{{layer_graph::LayerNormLayer{}},
                               {layer_graph::LinearLayer{.features = 64}},
                               {layer_graph::GeluLayer{}},
                               {layer_graph::LinearLayer{.features = 32}}};
  return with_layers({{layer_graph::EmbeddingLayer{.features = 32}},
                      {layer_graph::PositionEmbeddingLayer{}},
                      {layer_graph::RepeatLayer{.times = 2,
                                                .layers = {{layer_graph::ResidualLayer{.layers = attention}},
                                                           {layer_graph::ResidualLayer{.layers = feed_forward}}}}},
                      {layer_graph::LayerNormLayer{}},
                      {layer_graph::LinearLayer{}}});
}

LayersConfig others() {
  const LayerList squeeze{{layer_graph::GlobalAvgPoolLayer{.keep_dims = true}},
                          {layer_graph::Conv2dLayer{.channels = 4, .kernel_size = 1}},
                          {ActivationLayer<Activation::silu>{}},
                          {layer_graph::Conv2dLayer{.channels = 16, .kernel_size = 1}},
                          {ActivationLayer<Activation::hardsigmoid>{}}};
  const LayerList first{{layer_graph::Conv2dLayer{.channels = 8}}};
  const LayerList second{{layer_graph::Conv2dLayer{.channels = 8, .kernel_size = 1, .bias = false}},
                         {layer_graph::EluLayer{}}};
  return with_layers({{layer_graph::Conv2dLayer{.channels = 16, .kernel_size = 5, .stride = 2}},
                      {layer_graph::GroupNormLayer{.groups = 4}},
                      {ActivationLayer<Activation::mish>{}},
                      {layer_graph::Conv2dLayer{.channels = 16, .dilation = 2, .groups = 4}},
                      {layer_graph::LayerNormLayer{}},
                      {layer_graph::LayerScaleLayer{.init_value = 0.5}},
                      {ActivationLayer<Activation::hardswish>{}},
                      {layer_graph::MultiplyLayer{.branches = {{}, squeeze}}},
                      {layer_graph::AvgPoolLayer{.kernel_size = 3, .stride = 2, .padding = 1}},
                      {layer_graph::ConvTranspose2dLayer{
                          .channels = 8, .kernel_size = 3, .stride = 2, .padding = 1, .output_padding = 1}},
                      {layer_graph::LeakyReluLayer{.negative_slope = 0.1}},
                      {layer_graph::RmsNormLayer{}},
                      {layer_graph::AddLayer{.branches = {first, second}}},
                      {layer_graph::UpsampleLayer{}},
                      {layer_graph::MaxPoolLayer{.kernel_size = 3, .stride = 2, .padding = 1}},
                      {ActivationLayer<Activation::softplus>{}},
                      {layer_graph::FlattenLayer{}},
                      {layer_graph::LinearLayer{.features = 32}},
                      {layer_graph::RmsNormLayer{}},
                      {ActivationLayer<Activation::sigmoid>{}},
                      {layer_graph::LinearLayer{.features = 24, .bias = false}},
                      {layer_graph::BatchNormLayer{}},
                      {ActivationLayer<Activation::tanh>{}},
                      {layer_graph::LinearLayer{}}});
}

/// Deep networks with BatchNorm multiply rounding by a thousand in a few steps: they are compared in double precision.
TEST_CASE("lists of layers are what PyTorch makes of the same layers, and the other way", "[model][reference]") {
  std::vector<testing::RecordedCase> cases{
      {"resnet20", read_model("resnet20"), kImages},
      {"unet", read_model("unet"), kImages},
      {"densenet", read_model("densenet"), kImages},
      {"image_transformer", read_model("image_transformer"), kImages},
      {"mobilenet_v2", read_model("mobilenet_v2"), {.shape = {3, 64, 64}, .num_classes = 10}},
      {"others", others(), kImages},
      {"language_model", language_model(), {.shape = {16}, .vocab_size = 50}}};
  for (testing::RecordedCase& one : cases) one.precision = testing::Precision::double_;
  testing::check_both_ways("torch_layers.py", cases);
}

TEST_CASE("the last layer of a listed language model begins as torch.nn.Linear", "[model][regression]") {
  const auto model = testing::ready_model(language_model(), {.shape = {16}, .vocab_size = 50});
  int num_seen = 0;
  for (const NamedTensor& named : named_parameters(*model)) {
    if (!named.name.starts_with("4.")) continue;
    ++num_seen;
    const double bound = 1 / std::sqrt(32.0);  // torch draws weight and bias from ± 1/√inputs, evenly
    CHECK(testing::largest(named.tensor) <= bound);
    CHECK(testing::largest(named.tensor) > 0.8 * bound);
    CHECK(named.tensor.std().item<double>() == Approx(bound / std::sqrt(3.0)).epsilon(0.25));
  }
  CHECK(num_seen == 2);
}

TEST_CASE("each time of a repeat, and each layer with weights, is a block", "[model]") {
  const auto model = testing::ready_model(read_model("resnet20"), kImages);
  std::vector<std::string> names;
  for (const Block& block : model->blocks()) names.push_back(block.name);
  CHECK(names == std::vector<std::string>{"0", "3.0", "3.1", "3.2", "4", "6.0", "6.1", "7", "9.0", "9.1", "10", "11"});
  CHECK(model->flops_per_sample() / 2e6 == Approx(40.8).epsilon(0.01));  // million multiply-adds, by the paper's count
  CHECK(num_parameters(*model) == 272'474);
}

TEST_CASE("a layer that is read by name is in the block of its readers", "[model]") {
  const auto model = testing::ready_model(read_model("unet"), kImages);
  CHECK(model->blocks().size() == 3);  // up to the last `concat`, and the two convolutions after it
}

}  // namespace
}  // namespace trainctl::model::layer_list_reference_test
