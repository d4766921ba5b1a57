// What a list of layers is like, whatever the shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/stated.h"
#include "layer_graph/config.h"

namespace trainctl::layer_graph {

/// A layer that combines several tensors.
template <class Layer>
concept Combines = requires(const Layer& layer) {
  layer.branches;
  layer.with;
};

/// A layer that runs a list of layers.
template <class Layer>
concept HasLayers = requires(const Layer& layer) {
  layer.layers;
};

/// Returns the name of a layer among the parameters: its own, or its number in the list.
std::string name_of(const LayerConfig& layer, std::size_t number);

/// Layers that a network may have. A deep one has some thousands.
inline constexpr std::int64_t kMostLayers = 100'000;
/// Returns the number of layers, those inside others too, each as often as it is repeated: at most kMostLayers + 1.
std::int64_t num_layers(const LayerList& layers);

/// Returns whether a layer, or the first inside it, takes token ids.
bool reads_ids(const LayerConfig& layer);

/// Returns whether the first attention layer is causal; nothing where there is none.
std::optional<bool> is_causal(const LayerList& layers);

/// Reports the first attention layer that differs in `causal` from those before it.
std::vector<config::BrokenRule> mixed_causality(const LayerList& layers, const std::string& path);

/// The names of earlier layers that a layer reads beside its input.
const std::vector<std::string>& names_read(const LayerConfig& layer);

/// Consecutive layers of a list: [begin, end).
struct Run {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const Run&) const = default;
};

/// Cuts a list into the units that are sharded, recomputed or put on stages. A unit begins with a layer that has
/// weights other than a norm's, that has layers inside, or that follows a `repeat`. No name is read from another unit.
std::vector<Run> units_of(const LayerList& layers);

}  // namespace trainctl::layer_graph
