#include "layer_graph/inspect.h"

#include <algorithm>
#include <concepts>
#include <functional>
#include <map>

#include "config/problems.h"

namespace trainctl::layer_graph {
namespace {

void visit_attention(const LayerList& layers, const std::string& path,
                     const std::function<void(const AttentionLayer&, const std::string&)>& visit) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string place = config::join_path(path, i);
    layers[i].layer.visit([&]<class Layer>(const Layer& one) {
      if constexpr (std::same_as<Layer, AttentionLayer>) visit(one, place);
      if constexpr (HasLayers<Layer>) visit_attention(one.layers, place + ".layers", visit);
      if constexpr (std::same_as<Layer, ResidualLayer>) visit_attention(one.shortcut, place + ".shortcut", visit);
      if constexpr (Combines<Layer>)
        for (std::size_t b = 0; b < one.branches.size(); ++b)
          visit_attention(one.branches[b], config::join_path(place + ".branches", b), visit);
    });
  }
}

bool begins_unit(const LayerConfig& config) {
  return config.layer.visit([]<class Layer>(const Layer&) {
    return HasLayers<Layer> || Combines<Layer> || std::same_as<Layer, Conv2dLayer> ||
           std::same_as<Layer, DepthwiseConv2dLayer> || std::same_as<Layer, ConvTranspose2dLayer> ||
           std::same_as<Layer, LinearLayer> || std::same_as<Layer, AttentionLayer> ||
           std::same_as<Layer, EmbeddingLayer> || std::same_as<Layer, PluggedLayer>;
  });
}

}  // namespace

std::string name_of(const LayerConfig& layer, std::size_t number) {
  return layer.name ? *layer.name : std::to_string(number);
}

std::int64_t num_layers(const LayerList& layers) {
  static constexpr std::int64_t kTooMany = kMostLayers + 1;
  std::int64_t sum = 0;
  for (const LayerConfig& config : layers) {
    const std::int64_t inside = config.layer.visit([]<class Layer>(const Layer& one) {
      std::int64_t count = 0;
      if constexpr (HasLayers<Layer>) count += num_layers(one.layers);
      if constexpr (std::same_as<Layer, ResidualLayer>) count += num_layers(one.shortcut);
      if constexpr (Combines<Layer>)
        for (const LayerList& branch : one.branches) count += num_layers(branch);
      if constexpr (std::same_as<Layer, RepeatLayer>) count = std::min(count, kTooMany) * std::min(one.times, kTooMany);
      return std::min(count, kTooMany);
    });
    sum = std::min(sum + 1 + inside, kTooMany);
  }
  return sum;
}

bool reads_ids(const LayerConfig& layer) {
  return layer.layer.visit([]<class Layer>(const Layer& one) {
    if constexpr (HasLayers<Layer>)
      return !one.layers.empty() && reads_ids(one.layers.front());
    else if constexpr (Combines<Layer>)
      return std::ranges::any_of(one.branches,
                                 [](const LayerList& list) { return !list.empty() && reads_ids(list.front()); });
    else
      return std::same_as<Layer, EmbeddingLayer>;
  });
}

std::optional<bool> is_causal(const LayerList& layers) {
  std::optional<bool> first;
  visit_attention(layers, "", [&](const AttentionLayer& layer, const std::string&) {
    if (!first) first = layer.causal;
  });
  return first;
}

std::vector<config::BrokenRule> mixed_causality(const LayerList& layers, const std::string& path) {
  const std::optional<bool> first = is_causal(layers);
  std::vector<config::BrokenRule> broken;
  visit_attention(layers, path, [&](const AttentionLayer& layer, const std::string& place) {
    if (layer.causal != *first && broken.empty())
      broken.push_back({{place + ".causal", place + ".kind"},
                        std::string("the attention layers before it are ") + (*first ? "" : "not ") +
                            "causal; all of a network are, or none"});
  });
  return broken;
}

const std::vector<std::string>& names_read(const LayerConfig& layer) {
  static const std::vector<std::string> none;
  return layer.layer.visit([]<class Layer>(const Layer& one) -> const std::vector<std::string>& {
    if constexpr (Combines<Layer>) return one.with;
    return none;
  });
}

std::vector<Run> units_of(const LayerList& layers) {
  std::map<std::string, std::size_t> places;
  std::vector<bool> may_begin(layers.size(), false);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    may_begin[i] = begins_unit(layers[i]) || (i > 0 && layers[i - 1].layer.get_if<RepeatLayer>() != nullptr);
    if (layers[i].name) places.emplace(*layers[i].name, i);
  }
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const std::string& name : names_read(layers[i]))
      if (const auto place = places.find(name); place != places.end())
        for (std::size_t inside = place->second + 1; inside <= i; ++inside) may_begin[inside] = false;
  std::vector<Run> units;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (units.empty() || may_begin[i]) units.push_back({i, i});
    units.back().end = i + 1;
  }
  return units;
}

}  // namespace trainctl::layer_graph
