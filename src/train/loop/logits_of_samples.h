// A network's logits of each sample.
#pragma once

#include <ATen/core/Tensor.h>

#include "train/run/run.h"

namespace trainctl::train {

/// Computes the logits of run.data.eval, which reads the training set: float [samples, classes], row i of sample i of
/// its source. Throws Error if the task isn't classification.
at::Tensor logits_of_samples(Run& run, tracking::Sink& sink);

}  // namespace trainctl::train
