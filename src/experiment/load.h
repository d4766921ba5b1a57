// An experiment file, with its base and --set, as a checked Experiment. This is where YAML ends.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "config/node.h"
#include "experiment/experiment.h"

namespace trainctl::experiment {

struct LoadedExperiment {
  Experiment experiment;
  config::Node node;                        // complete; each value's origin is the file, --set or the default
  std::string resolved_yaml;                // complete; trains again as it is
  std::map<std::string, std::string> flat;  // "optimizer.lr" -> "0.001"
};

/// Loads a plug-in of `plugins:` by its path, or throws core::Error.
using PluginLoader = std::function<void(const std::string& path)>;

/// `sets` are assignments "a.b=v". Throws ConfigError with every mistake: of syntax, keys, values, and across sections.
/// `load_plugin`: null refuses experiments with plug-ins.
LoadedExperiment load_experiment(const std::filesystem::path& path, std::span<const std::string> sets = {},
                                 const PluginLoader& load_plugin = nullptr);

}  // namespace trainctl::experiment
