// The data of an abstract run: batches without values.
#pragma once

#include <memory>

#include "dataset/outline.h"

namespace trainctl::plan {

class MemoryLog;

/// A loader as in training: it holds as many batches ahead, and its batches have the shapes of full ones. `log` learns
/// which memory is theirs, and outlives it. Needs a HollowScope.
std::unique_ptr<dataset::Loader> imagined_loader(const dataset::BatchOutline& outline,
                                                 const dataset::DatasetConfig& config, const dataset::Share& share,
                                                 MemoryLog& log);

}  // namespace trainctl::plan
