#include "experiment/load.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "config/overlay.h"
#include "config/read.h"
#include "core/error.h"
#include "experiment/published_adapter.h"
#include "experiment/published_config.h"
#include "experiment/renamed.h"
#include "experiment/resolve.h"
#include "experiment/run_config.h"
#include "experiment/shape.h"

namespace trainctl::experiment {

namespace {

/// Lets a length that `--set` gives, in steps or epochs, take the place of the file's in the other unit.
void replace_length(config::Node& written) {
  config::Node* const train = written.find("train");
  config::Node* const steps = train == nullptr ? nullptr : train->find("steps");
  config::Node* const epochs = train == nullptr ? nullptr : train->find("epochs");
  if (steps == nullptr || epochs == nullptr) return;
  if (steps->kind == config::NodeKind::null || epochs->kind == config::NodeKind::null) return;
  const bool sets_steps = steps->origin.kind == config::OriginKind::command_line;
  const bool sets_epochs = epochs->origin.kind == config::OriginKind::command_line;
  if (sets_steps == sets_epochs) return;
  config::Node& replaced = sets_steps ? *epochs : *steps;
  replaced = config::Node{.origin = (sets_steps ? steps : epochs)->origin};
}

/// Writes the kind of task that follows from the dataset, if the file leaves the kind out.
void add_task_kind(config::Node& written) {
  config::Node* const task = written.find("task");
  if (task == nullptr || task->kind != config::NodeKind::mapping || task->find("kind") != nullptr) return;
  config::Problems ignored;  // reported when the whole is read
  Experiment experiment;
  config::read_into(experiment_shape(), written, &experiment, ignored);
  const std::string_view kind = task::task_for(config::facts_of(experiment.dataset.source).targets);
  task->add("kind", task->origin, config::Node::scalar(std::string(kind), config::ScalarStyle::plain, task->origin));
}

/// Returns the sections whose networks may follow from weights.
std::vector<NetworkSection> network_sections(config::Node& written) {
  config::Node* const distillation = written.find("distillation");
  return {{.node = written.find("model"), .path = "model"},
          {.node = distillation == nullptr ? nullptr : distillation->find("teacher"), .path = "distillation.teacher"}};
}

/// The part of an experiment that is read before all else: plug-ins decide which kinds the rest may name.
struct PluginList {
  std::vector<std::string> plugins;

  static constexpr auto fields() {
    return config::Fields{config::field<&PluginList::plugins>("Shared libraries.", config::non_empty)};
  }
};

/// Loads the plug-ins that the file, its bases and the assignments name. What else is wrong is reported later.
void load_plugins(const std::filesystem::path& path, std::span<const std::string> sets,
                  const PluginLoader& load_plugin) {
  config::Problems ignored;
  const config::Shape& shape = config::shape_of<PluginList>();
  std::optional<config::Node> written = config::load_with_bases(shape, path, ignored);
  if (!written) return;
  for (const std::string& assignment : sets)
    if (assignment.starts_with("plugins")) config::apply_set(shape, *written, assignment, ignored);
  const config::Node* const plugins = written->find("plugins");
  if (plugins == nullptr) return;
  PluginList list;
  config::read_into(shape, *written, &list, ignored);
  config::Problems problems;
  for (std::size_t i = 0; i < std::min(list.plugins.size(), plugins->items.size()); ++i) try {
      if (!load_plugin) throw core::Error("plug-ins aren't loaded here");
      load_plugin(list.plugins[i]);
    } catch (const core::Error& error) {
      problems.add(plugins->items[i].origin, config::join_path("plugins", i), error.text());
    }
  problems.throw_if_any();
}

}  // namespace

LoadedExperiment load_experiment(const std::filesystem::path& path, std::span<const std::string> sets,
                                 const PluginLoader& load_plugin) {
  load_plugins(path, sets, load_plugin);
  config::Problems problems;
  const config::Shape& shape = experiment_shape();
  std::optional<config::Node> written = config::load_with_bases(shape, path, problems);
  if (!written) problems.throw_if_any();
  for (const std::string& assignment : sets) config::apply_set(shape, *written, assignment, problems);
  config::refuse_renamed(*written, kRenamed, "was renamed to", problems);
  config::refuse_renamed(*written, kNamesElsewhere, "is called here", problems);
  replace_length(*written);
  for (const NetworkSection& section : network_sections(*written)) {
    adopt_run_config(section, problems);
    adopt_published_config(section, problems);
  }
  adopt_published_start_token(*written, problems);
  adopt_published_adapter(*written, problems);
  add_task_kind(*written);
  Experiment experiment;
  config::read_into(shape, *written, &experiment, problems);
  if (written->find("task") == nullptr)
    experiment.task = task::default_task(config::facts_of(experiment.dataset.source).targets);
  return resolve(std::move(experiment), *written, problems);
}

}  // namespace trainctl::experiment
