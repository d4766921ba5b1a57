// The rules that hold across an experiment's sections. Ranges of single keys are in their config.h; facts of the
// machine and of the data are checked where they are met.
#pragma once

#include "config/node.h"
#include "config/problems.h"
#include "experiment/experiment.h"

namespace trainctl::experiment {

/// Adds a problem for each broken rule, at the key that breaks it. `node` is the experiment, complete, with origins.
/// Rules about keys that already have a problem are skipped.
void check_experiment(const Experiment& experiment, const config::Node& node, config::Problems& problems);

}  // namespace trainctl::experiment
