// The data of an abstract run: batches without values.
#pragma once

#include <memory>

#include "dataset/outline.h"

namespace trainctl {

class MemoryLog;

/// A loader as in training: it holds as many batches ahead, and its batches have the shapes of full ones. `log` learns
/// which memory is theirs, and outlives it. Needs a HollowScope.
std::unique_ptr<Loader> imagined_loader(const BatchOutline& outline, const DatasetConfig& config, const Share& share,
                                        MemoryLog& log);

}  // namespace trainctl
