// Where a number first stopped being finite.
#pragma once

#include <string>

#include "train/loop/step.h"

namespace trainctl::train {

/// Returns the name of the first value that isn't finite: the input, a parameter, or the output of a block ("the output
/// of layer1.0"). Repeats the forward pass of the step's last micro-batch. Changes BatchNorm's running statistics, so
/// it is called only before the run's end or a rollback.
std::string first_non_finite(Run& run, const Step& step);

}  // namespace trainctl::train
