// A network's kind and sizes from the config of a run whose weights it starts from.
#pragma once

#include <string>

#include "experiment/published_config.h"

namespace trainctl::experiment {

/// Adds to a network's section the keys that it leaves out and that a run's config.yaml says. Its init_from is the run,
/// its checkpoints or a step directory. Keys that it has stay as they are, and so does all if its `kind` is another.
void adopt_run_config(const NetworkSection& section, config::Problems& problems);

/// Returns what the first of several runs began with: `init_from`, or if it is a run, the init_from of that run's
/// model, and so on.
std::string first_init_from(std::string init_from);

}  // namespace trainctl::experiment
