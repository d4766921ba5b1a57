// A step whose loss or gradient is not finite: where the first such number is, and what the run does.
#pragma once

#include "tracking/event.h"
#include "train/loop/step.h"

namespace trainctl::train {

enum class AfterNonFinite { go_on, roll_back };

/// Applies `train.on_non_finite` to the step that `result` is of. Waits for the device. Throws Error where the run must
/// stop, and names the first value that isn't finite: the input, a parameter, or the output of a block.
[[nodiscard]] AfterNonFinite handle_non_finite(Run& run, const Step& step, const StepResult& result,
                                               tracking::Sink& sink);

}  // namespace trainctl::train
