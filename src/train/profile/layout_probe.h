// Which memory format convolutions of images are faster in, on this device.
#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <vector>

#include "profiler/summary.h"

namespace trainctl::train {

/// Runs each a few times in either format, forward and backward. Nothing, where there are none.
std::optional<profiler::LayoutProbe> probe_layout(const std::vector<profiler::ConvolutionSummary>& convolutions,
                                                  c10::Device device);

}  // namespace trainctl::train
