// The one place where the description of an Experiment is instantiated.
#pragma once

#include "config/shape.h"

namespace trainctl::experiment {

const config::Shape& experiment_shape();

}  // namespace trainctl::experiment
