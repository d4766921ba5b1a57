// From a typed experiment to its other forms.
#pragma once

#include "config/problems.h"
#include "experiment/load.h"

namespace trainctl::experiment {

/// Returns all forms of the experiment. Keys have the origins that they have in `written`. Throws ConfigError with all
/// problems: those given, and those that its sections have with each other.
LoadedExperiment resolve(Experiment experiment, const config::Node& written, config::Problems& problems);

}  // namespace trainctl::experiment
