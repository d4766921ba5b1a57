// What a shared library includes that extends trainctl: docs/plugins.md. No LibTorch here: a plug-in's own sources
// include the interfaces that they implement, such as model/model.h.
#pragma once

#include <vector>

#include "config/shape.h"
#include "dataset/config.h"
#include "layer_graph/config.h"
#include "model/config.h"
#include "optimizer/config.h"
#include "plugin/command.h"
#include "task/config.h"

namespace trainctl::plugin {

/// What a plug-in adds. Each function takes a config struct as trainctl's own are (CONTRIBUTING.md): a `kind`, members
/// with defaults, `fields()`, and what the section's folder asks of it. Its keys are read, checked, described and
/// completed as all others are.
class Registry {
 public:
  template <class Config>
  void add_network() {
    networks.push_back(config::plugged_kind<Config>(model::network_interface<Config>()));
  }
  /// A layer of `model: {kind: layers}`.
  template <class Config>
  void add_layer() {
    layers.push_back(config::plugged_kind<Config>(layer_graph::layer_interface<Config>()));
  }
  template <class Config>
  void add_dataset() {
    datasets.push_back(config::plugged_kind<Config>(dataset::source_interface<Config>()));
  }
  template <class Config>
  void add_transform() {
    transforms.push_back(config::plugged_kind<Config>(dataset::transform_interface<Config>()));
  }
  template <class Config>
  void add_task() {
    tasks.push_back(config::plugged_kind<Config>(task::task_interface<Config>()));
  }
  /// An update rule of `optimizer:`.
  template <class Config>
  void add_optimizer() {
    optimizers.push_back(config::plugged_kind<Config>(optimizer::rule_interface<Config>()));
  }
  /// A metric of `metrics:`, beside those of the task.
  template <class Config>
  void add_metric() {
    metrics.push_back(config::plugged_kind<Config>(task::metric_interface<Config>()));
  }
  /// A command of the program, whose options are the fields.
  template <class Config>
  void add_command() {
    commands.push_back(config::plugged_kind<Config>(command_interface<Config>()));
  }

  std::vector<config::PluggedKind<model::NetworkInterface>> networks;
  std::vector<config::PluggedKind<layer_graph::LayerInterface>> layers;
  std::vector<config::PluggedKind<dataset::SourceInterface>> datasets;
  std::vector<config::PluggedKind<dataset::TransformInterface>> transforms;
  std::vector<config::PluggedKind<task::TaskInterface>> tasks;
  std::vector<config::PluggedKind<optimizer::RuleInterface>> optimizers;
  std::vector<config::PluggedKind<task::MetricInterface>> metrics;
  std::vector<config::PluggedKind<CommandInterface>> commands;
};

}  // namespace trainctl::plugin

/// Each plug-in defines this function. It is called once, when the plug-in is loaded, before any thread is started.
extern "C" [[gnu::visibility("default")]] void trainctl_plugin(trainctl::plugin::Registry& registry);
