// `auto` in an experiment becomes values before anything is built.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/launch/launch.h"
#include "experiment/load.h"
#include "plan/fit.h"
#include "tracking/event.h"

namespace trainctl::engine {

/// How many ranks there are, and how many share this machine.
struct Ranks {
  std::int64_t world = 1;
  std::int64_t local_world = 1;
};
Ranks ranks_of(const experiment::Experiment& experiment, const comm::Launch* launch);

/// Returns the settings "a.b=v" that replace `auto`, or none if the experiment has no `auto`. `before` is the flattened
/// config of a resumed run, whose values are kept if it has all of them. Otherwise the planner chooses for the device
/// of this process, and two trial steps confirm the choice. `notices` receives the choice and its reason.
std::vector<std::string> choice_settings(const experiment::LoadedExperiment& loaded, const Ranks& ranks,
                                         const std::map<std::string, std::string>& before,
                                         std::vector<tracking::Notice>& notices);

/// "a.b=v".
std::vector<std::string> assignments(const std::vector<plan::Setting>& settings);

/// For commands that train without a run to go on from: chosen. For those that don't train, in whose results it has no
/// part: any value.
experiment::LoadedExperiment with_choices(const experiment::LoadedExperiment& loaded,
                                          std::vector<tracking::Notice>& notices);
experiment::LoadedExperiment without_choices(const experiment::LoadedExperiment& loaded);

}  // namespace trainctl::engine
