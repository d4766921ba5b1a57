// A network's kind and sizes from the config.json beside published weights.
#pragma once

#include "config/node.h"
#include "config/problems.h"

namespace trainctl::experiment {

/// Adds to `written` the keys of `model` that it leaves out and that DIR/config.json says, where model.init_from is
/// DIR. Their origins are their lines in that file. Keys that `written` has stay as they are; if weights and keys
/// differ, the weights' loader says so. Adds a problem if `written` has no kind and no config.json gives one.
void adopt_published_config(config::Node& written, config::Problems& problems);

}  // namespace trainctl::experiment
