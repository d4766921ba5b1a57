// The data of an abstract run: batches without values.
#pragma once

#include <memory>

#include "dataset/batch_spec.h"

namespace trainctl::plan {

class MemoryTracker;

/// A loader as in training: it holds as many batches ahead, and its batches have the shapes of full ones. `log` learns
/// which memory is theirs, and outlives it. Needs a FakeTensorScope.
std::unique_ptr<dataset::Loader> fake_loader(const dataset::BatchSpec& outline, const dataset::DatasetConfig& config,
                                             const dataset::Share& share, MemoryTracker& log);

}  // namespace trainctl::plan
