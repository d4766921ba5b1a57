// Tasks of plug-ins. Part of task/config.h; without LibTorch.
#pragma once

#include <memory>
#include <vector>

#include "config/plugged.h"
#include "dataset/config.h"
#include "task/metric_names.h"
#include "task/traits.h"

namespace trainctl::task {

class Task;

/// What other folders ask the config struct of a plug-in's task. A member's first parameter is that struct.
struct TaskInterface {
  TaskTraits traits;
  dataset::Targets targets;  // of the data that the task is for
  std::vector<config::BrokenRule> (*broken_rules)(const void* config, const Surroundings& around);
  std::vector<MetricName> (*metric_names)(const void* config);
  std::unique_ptr<Task> (*build)(const void* config, const dataset::SampleSpec& spec);
};

/// A task of a plug-in, in place of a config struct of ours.
class PluggedTaskConfig : public config::Plugged<TaskInterface> {
 public:
  using Plugged::Plugged;
  // config::traits_of() tells those of the plug-in.
  static constexpr TaskTraits traits{.output = model::Output::per_sample, .has_classes = false, .takes_teacher = false};

  std::vector<config::BrokenRule> broken_rules(const Surroundings& around) const {
    return interface().broken_rules(config(), around);
  }
  std::vector<MetricName> metric_names() const { return interface().metric_names(config()); }
};

/// Does not compile unless the config struct of a task states all that other folders ask for.
template <class Task>
consteval bool states_its_traits() {
  static_assert(config::WithTraits<Task, TaskTraits>, "a task's config has `static constexpr TaskTraits traits{...}`");
  static_assert(
      requires(const Task& task) { metric_names(task.metrics).front().best; },
      "a task's config has a list `metrics` of an enumeration");
  static_assert(
      requires(const Task& task, const Surroundings& around) {
        requires std::same_as < std::vector<config::BrokenRule>,
        decltype(task.broken_rules(around)) > ;
      },
      "a task's config has `std::vector<config::BrokenRule> broken_rules(const Surroundings&) const`");
  return true;
}

/// Returns what a config struct of a task says, as an interface. `static constexpr dataset::Targets targets` are those
/// of the data. `build(const Config&, const dataset::SampleSpec&)`, which returns a std::unique_ptr<Task>, is found in
/// the namespace of the struct.
template <class Config>
TaskInterface task_interface() {
  static_assert(states_its_traits<Config>());
  static_assert(!Config::traits.takes_teacher, "a task of a plug-in has no teacher");
  return {.traits = Config::traits,
          .targets = Config::targets,
          .broken_rules =
              [](const void* config, const Surroundings& around) {
                return config::plugged_config<Config>(config).broken_rules(around);
              },
          .metric_names =
              [](const void* config) { return task::metric_names(config::plugged_config<Config>(config).metrics); },
          .build = [](const void* config, const dataset::SampleSpec& spec) -> std::unique_ptr<Task> {
            return build(config::plugged_config<Config>(config), spec);
          }};
}

}  // namespace trainctl::task
