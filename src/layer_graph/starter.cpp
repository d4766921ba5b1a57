#include "layer_graph/infer.h"

namespace trainctl::layer_graph {

LayerList starter_layers() {
  using Relu = ActivationLayer<Activation::relu>;
  const auto convolution = [](std::int64_t channels, std::int64_t stride) {
    return LayerConfig{Conv2dLayer{.channels = channels, .stride = stride, .bias = false}};
  };
  const LayerList branch{convolution(32, 1), {BatchNormLayer{}}, {Relu{}}, convolution(32, 1), {BatchNormLayer{}}};
  return {convolution(32, 2),
          {BatchNormLayer{}},
          {Relu{}},
          {RepeatLayer{.times = 2, .layers = {{ResidualLayer{.layers = branch, .shortcut = {}}}, {Relu{}}}}},
          {GlobalAvgPoolLayer{}},
          {LinearLayer{}}};
}

}  // namespace trainctl::layer_graph
