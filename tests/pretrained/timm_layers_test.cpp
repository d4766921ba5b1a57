// Lists of layers in configs/layers against the networks of timm whose weights they load.
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdio>

#include "../model/recorded_model.h"
#include "config/parse.h"
#include "config/read.h"
#include "pretrained/state_dict_adapter.h"

namespace trainctl::pretrained {
namespace {

using model::LayersConfig;
using testing::TensorMap;

const std::string kScript = "timm_layers.py";
const std::vector<std::string> kNames = {"mobilenet_v3_small", "efficientnet_b0", "convnext_tiny"};

LayersConfig read_model(const std::string& name) {
  config::Problems problems;
  const std::filesystem::path directory = std::filesystem::path(TRAINCTL_SOURCE_DIR) / "configs" / "layers";
  const auto file = config::parse_file(directory / (name + ".yaml"), problems);
  auto model = config::read<model::ModelConfig>(*file->find("model"), problems, "model");
  problems.throw_if_any();
  return *model.network.get_if<LayersConfig>();
}

/// Keeps an eighth of the channels that convolutions give, and makes each layer_scale begin with a half.
void shrink(layer_graph::LayerList& layers) {
  for (layer_graph::LayerConfig& config : layers)
    std::visit(
        []<class Layer>(Layer& layer) {
          if constexpr (std::same_as<Layer, layer_graph::Conv2dLayer>) layer.channels = *layer.channels.value / 8;
          if constexpr (std::same_as<Layer, layer_graph::LayerScaleLayer>) layer.init_value = 0.5;
          if constexpr (requires { layer.layers; }) shrink(layer.layers);
        },
        config.layer.value);
}

/// Returns the recorded tensors, with weights and gradients under our names.
TensorMap named_as_here(const TensorMap& recorded, const model::NetworkConfig& network, model::Model& model) {
  TensorMap tensors = recorded;
  for (const std::string prefix : {"weights/", "gradients/"}) {
    checkpoint::TensorMap theirs;
    for (const auto& [name, tensor] : recorded)
      if (name.starts_with(prefix)) {
        theirs[name.substr(prefix.size())] = tensor;
        tensors.erase(name);
      }
    for (const auto& [name, tensor] : as_named_here(theirs, network, model)) tensors[prefix + name] = tensor;
  }
  return tensors;
}

TEST_CASE("lists of layers with timm's names are timm's networks: outputs, gradients and twenty steps",
          "[pretrained][reference]") {
  const auto all = testing::reference(kScript, "record");
  std::fprintf(stderr, "| network | output | gradients | losses of 20 steps |\n| --- | --- | --- | --- |\n");
  for (const std::string& name : kNames) {
    INFO(name);
    LayersConfig config = read_model(name);
    if (name == "convnext_tiny") shrink(config.layers);
    const testing::RecordedCase one{
        name, config, {.shape = {3, 64, 64}, .num_classes = 10}, testing::Precision::double_};
    const auto model = testing::model_of(one, /*seed=*/1);
    const TensorMap recorded = named_as_here(testing::part_of(all, name), one.network, *model);
    const testing::Differences off = testing::check_against_recorded(*model, recorded, {testing::plain_loss});
    CHECK(std::max({off.output, off.gradients, off.steps}) < 1e-6);
    std::fprintf(stderr, "| %s | %.1e | %.1e | %.1e |\n", name.c_str(), off.output, off.gradients, off.steps);
  }
}

TEST_CASE("lists of layers take every tensor of timm's files, with its shape", "[pretrained][reference]") {
  const auto shapes = testing::reference(kScript, "shapes");
  for (const std::string& name : kNames) {
    INFO(name);
    const LayersConfig config = read_model(name);
    const auto model = model::build(model::ModelConfig{.network = config}, {.shape = {3, 224, 224}, .num_classes = 10});
    model::materialize(*model, at::kCPU, 1, /*channels_last=*/false);
    checkpoint::TensorMap published;
    for (const auto& [entry, shape] : testing::part_of(shapes, name)) {
      const auto* dims = shape.const_data_ptr<std::int64_t>();
      published[entry] = at::zeros(std::vector<std::int64_t>(dims, dims + shape.numel()));
    }
    std::map<std::string, std::vector<std::int64_t>> theirs;
    for (const auto& [entry, tensor] : as_named_here(published, config, *model)) theirs[entry] = tensor.sizes().vec();
    std::map<std::string, std::vector<std::int64_t>> ours;
    const auto add = [&](const std::string& entry, model::TensorDecl& decl) { ours[entry] = decl.value.sizes().vec(); };
    model->visit_parameters(add);
    model->visit_buffers(add);
    CHECK(ours == theirs);
  }
}

}  // namespace
}  // namespace trainctl::pretrained
