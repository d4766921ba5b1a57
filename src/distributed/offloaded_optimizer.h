// An optimizer whose state lies outside of memory, and is streamed through the update unit by unit.
#pragma once

#include <memory>
#include <vector>

#include "distributed/offload.h"
#include "optimizer/optimizer.h"

namespace trainctl::distributed {

/// Parameters that are updated together.
using OptimizedUnit = std::vector<optimizer::OptimizedParameter>;

/// Updates one unit after the other, as one optimizer over all of them would: the next one's state, and its parameters
/// where they lie in `memory` too, are read ahead, the last one's are written behind. `memory` outlives the result.
std::unique_ptr<optimizer::Optimizer> build_offloaded(const optimizer::OptimizerConfig& config,
                                                      const std::vector<OptimizedUnit>& units, OffloadMemory& memory);

/// Streams only the parameters; the state stays in memory.
std::unique_ptr<optimizer::Optimizer> build_over_offloaded(const optimizer::OptimizerConfig& config,
                                                           const std::vector<OptimizedUnit>& units,
                                                           OffloadMemory& memory);

}  // namespace trainctl::distributed
