// How weights and gradients are distributed, for the trackers.
#pragma once

#include <cstdint>
#include <vector>

#include "optimizer/optimizer.h"
#include "tracking/event.h"

namespace trainctl::train {

/// Measures each parameter, and its gradient if there is one. Waits for the device.
tracking::ParametersMeasured measure_parameters(std::int64_t step,
                                                const std::vector<optimizer::OptimizedParameter>& parameters);

}  // namespace trainctl::train
