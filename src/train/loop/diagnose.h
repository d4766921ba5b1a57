// Where a number first stopped being finite.
#pragma once

#include <string>

#include "train/loop/step.h"

namespace trainctl::train {

/// Repeats the forward pass of the step's last micro-batch and names what isn't finite first: the input, a parameter,
/// or the output of a block ("the output of layer1.0"). Spoils BatchNorm's running statistics; ends a run, or precedes
/// a rollback.
std::string first_non_finite(Run& run, const Step& step);

}  // namespace trainctl::train
