// Shapes between the layers of a list, and what doesn't fit.
#pragma once

#include <string>
#include <vector>

#include "config/stated.h"
#include "layer_graph/config.h"
#include "layer_graph/shape.h"

namespace trainctl::layer_graph {

/// What `auto` stands for.
struct DataSizes {
  Size num_outputs{};  // classes, or tokens of the vocabulary
};

/// Shapes of a list: the output of each layer, in order, until a layer doesn't fit.
struct Inference {
  std::vector<Shape> outputs;
  std::vector<config::BrokenRule> problems{};

  bool fits() const { return problems.empty(); }
};

/// Returns the output shapes of the layers of a list that is given `input`. `path` is the list's place in the
/// experiment: "model.layers". A problem names the layer's own place, and the shapes on both sides.
Inference infer(const LayerList& layers, const Shape& input, const DataSizes& data, const std::string& path);

/// Returns a small network for images of about 28 pixels.
LayerList starter_layers();

}  // namespace trainctl::layer_graph
