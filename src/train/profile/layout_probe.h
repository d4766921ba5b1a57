// Which memory format convolutions of images are faster in, on this device.
#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <vector>

#include "kernels/winograd.h"
#include "profiler/summary.h"

namespace trainctl::train {

/// Runs each a few times in either format, forward and backward, by Winograd's algorithm where the run does. Nothing,
/// where there are none.
std::optional<profiler::LayoutProbe> probe_layout(const std::vector<profiler::ConvolutionSummary>& convolutions,
                                                  c10::Device device, kernels::Winograd winograd);

}  // namespace trainctl::train
