// An optimizer whose state lies outside of memory, and is streamed through the update unit by unit.
#pragma once

#include <memory>
#include <vector>

#include "distributed/offload.h"
#include "optimizer/optimizer.h"

namespace trainctl::distributed {

/// Parameters that are updated together.
using OptimizedUnit = std::vector<optimizer::OptimizedParameter>;

/// Returns an optimizer that updates one unit after the other, with the result of one optimizer over all of them. The
/// next unit's state is read ahead, and the last unit's state is written behind. Parameters are handled in the same way
/// if they lie in `memory`. `memory` outlives the result.
std::unique_ptr<optimizer::Optimizer> build_offloaded(const optimizer::OptimizerConfig& config,
                                                      const std::vector<OptimizedUnit>& units, OffloadMemory& memory);

/// Streams only the parameters; the state stays in memory.
std::unique_ptr<optimizer::Optimizer> build_over_offloaded(const optimizer::OptimizerConfig& config,
                                                           const std::vector<OptimizedUnit>& units,
                                                           OffloadMemory& memory);

}  // namespace trainctl::distributed
