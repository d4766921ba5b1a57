// `auto` in an experiment becomes values before anything is built.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/launch/launch.h"
#include "experiment/auto_values.h"
#include "tracking/event.h"

namespace trainctl::engine {

/// How many ranks there are, and how many share this machine.
struct Ranks {
  std::int64_t world = 1;
  std::int64_t local_world = 1;
};
Ranks ranks_of(const experiment::Experiment& experiment, const comm::Launch* launch);

/// Returns the values that replace `auto`, or none if the experiment has no `auto`. `before` are the values of a
/// resumed run, which are kept if there is one for each `auto`. Otherwise the planner chooses for the device of this
/// process, and two trial steps confirm the choice. `notices` receives the choice and its reason.
experiment::AutoValues choose_values(const experiment::Experiment& experiment, const Ranks& ranks,
                                     const experiment::AutoValues& before, std::vector<tracking::Notice>& notices);

/// For commands that train without a run to go on from: chosen. For those that don't train, in whose results it has no
/// part: any value.
experiment::LoadedExperiment with_choices(const experiment::LoadedExperiment& loaded,
                                          std::vector<tracking::Notice>& notices);
experiment::LoadedExperiment without_choices(const experiment::LoadedExperiment& loaded);

}  // namespace trainctl::engine
