#include "plugin/load.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "experiment/shape.h"
#include "plugin/abi.h"
#include "plugin/plugin.h"

namespace trainctl::plugin {
namespace {

namespace fs = std::filesystem;

using Entry = void (*)(Registry&);
constexpr const char* kEntry = "trainctl_plugin";

/// Returns the build that a text beginning with the mark names.
std::string build_in(const std::string& text) {
  const std::string mark = std::string(kAbiMark[0]) + kAbiMark[1];
  const std::size_t begin = text.find(mark);
  if (begin == std::string::npos) return "";
  const std::size_t first = begin + mark.size();
  return text.substr(first, text.find('@', first) - first);
}

/// Refuses a file that isn't a plug-in of this build, without loading it.
void check_build(const fs::path& file) {
  std::error_code unknown;
  if (!fs::exists(file, unknown) || fs::is_directory(file, unknown))
    throw core::Error("there is no plug-in " + file.string() +
                      (file.is_relative() ? ", looked for from " + fs::current_path().string() : ""));
  constexpr std::uint64_t kMostBytes = std::uint64_t{2} << 30;
  const std::string theirs = build_in(core::read_file(file, kMostBytes));  // refuses pipes and devices
  const std::string ours = build_in(trainctl_plugin_abi);
  if (theirs.empty())
    throw core::Error(file.string() + " is no plug-in of trainctl")
        .hint("link it to trainctl::plugin of find_package(trainctl), which adds its mark");
  if (theirs != ours)
    throw core::Error(file.string() + " was built for " + theirs + "; this is " + ours)
        .hint("build the plug-in again with this installation's find_package(trainctl)");
}

template <class Interface>
void refuse_known(const config::Shape& section, const std::vector<config::PluggedKind<Interface>>& kinds,
                  const char* what) {
  for (const config::PluggedKind<Interface>& kind : kinds)
    if (std::ranges::find(section.words, kind.name) != section.words.end())
      throw core::Error("there is a " + std::string(what) + " '" + std::string(kind.name) + "' already")
          .hint("give the plug-in's another `kind`");
}

template <class Interface>
void add(const std::vector<config::PluggedKind<Interface>>& kinds) {
  for (const config::PluggedKind<Interface>& kind : kinds) config::PluggedKinds<Interface>::all().add(kind);
}

void add_all(const Registry& registry) {
  refuse_known(config::shape_of<model::NetworkConfig>(), registry.networks, "network");
  refuse_known(config::shape_of<layer_graph::LayerKind>(), registry.layers, "layer");
  refuse_known(config::shape_of<dataset::SourceConfig>(), registry.datasets, "dataset");
  refuse_known(config::shape_of<dataset::TransformConfig>(), registry.transforms, "transform");
  refuse_known(config::shape_of<task::TaskConfig>(), registry.tasks, "task");
  refuse_known(config::shape_of<optimizer::UpdateRuleConfig>(), registry.optimizers, "update rule");
  refuse_known(config::shape_of<task::MetricConfig>(), registry.metrics, "metric");
  add(registry.networks);
  add(registry.layers);
  add(registry.datasets);
  add(registry.transforms);
  add(registry.tasks);
  add(registry.optimizers);
  add(registry.metrics);
  add(registry.commands);
}

}  // namespace

void load(const fs::path& file, const std::function<void()>& load_engine) {
  static std::set<fs::path> loaded;
  check_build(file);
  const fs::path path = fs::canonical(file);
  if (!loaded.insert(path).second) return;
  load_engine();
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw core::Error("cannot load the plug-in " + file.string() + ": " + dlerror());
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kEntry));
  if (entry == nullptr)
    throw core::Error(file.string() + " has no function " + kEntry).hint("define it as plugin/plugin.h declares it");
  Registry registry;
  try {
    entry(registry);
    add_all(registry);
  } catch (core::Error& error) {
    error.during("loading the plug-in " + file.string());
    throw;
  }
}

}  // namespace trainctl::plugin
