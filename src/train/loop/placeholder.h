// A batch for a rank that has no sample left, while others have.
#pragma once

#include "dataset/dataset.h"

namespace trainctl::train {

/// Two samples of zeros, otherwise like the empty batch (two, since BatchNorm can't normalise over one).
dataset::Batch placeholder(const dataset::Batch& empty);

}  // namespace trainctl::train
