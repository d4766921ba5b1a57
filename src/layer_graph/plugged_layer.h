// Layers of plug-ins. Part of layer_graph/config.h; without LibTorch.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "config/plugged.h"
#include "layer_graph/shape.h"

namespace trainctl::layer_graph {

/// The output's shape; or what the layer takes, such as "an image", where the input is something else.
using LayerOutput = std::variant<Shape, std::string>;

/// What other folders ask the config struct of a plug-in's layer. A member's first parameter is that struct.
struct LayerInterface {
  LayerOutput (*output_of)(const void* config, const Shape& input);
  /// FLOPs of one sample.
  double (*flops)(const void* config, const Shape& input);
  /// Returns a new model::UnaryLayer, a type that this folder doesn't know. The caller owns the layer.
  void* (*make)(const void* config, const Shape& input);
};

/// A layer of a plug-in, in place of a config struct of ours.
class PluggedLayer : public config::Plugged<LayerInterface> {
 public:
  using Plugged::Plugged;
};

/// Returns what a config struct of a layer says, as an interface. `build(const Config&, const Shape&)`, which returns a
/// std::unique_ptr<model::UnaryLayer>, is found in the namespace of the struct.
template <class Config>
LayerInterface layer_interface() {
  static_assert(
      requires(const Config& config, const Shape& input) {
        requires std::same_as<LayerOutput, decltype(config.output_of(input))>;
        requires std::same_as<double, decltype(config.flops(input))>;
      },
      "a layer's config has `LayerOutput output_of(const Shape&) const` and `double flops(const Shape&) const`");
  return {.output_of = [](const void* config,
                          const Shape& input) { return config::plugged_config<Config>(config).output_of(input); },
          .flops = [](const void* config,
                      const Shape& input) { return config::plugged_config<Config>(config).flops(input); },
          .make = [](const void* config, const Shape& input) -> void* {
            return build(config::plugged_config<Config>(config), input).release();
          }};
}

}  // namespace trainctl::layer_graph
