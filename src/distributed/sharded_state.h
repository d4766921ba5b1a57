// The state of sharded parameters: each rank shows the stretches that it keeps, as they lie. Nothing is gathered.
#pragma once

#include <vector>

#include "distributed/shard_groups.h"
#include "distributed/units.h"
#include "optimizer/optimizer.h"
#include "runtime/state.h"

namespace trainctl {

/// Shows "model" and "optimizer": of sharded tensors this rank's stretch, of the others all. After a loader has filled
/// them, parameters that are kept whole have to be gathered anew.
void visit_sharded(State& state, Optimizer& optimizer, std::vector<Unit>& units, const ShardGroups& groups,
                   Model& model);
/// Averages of what the optimizer updates.
void visit_sharded(State& state, Ema& ema, const std::vector<Unit>& units, const ShardGroups& groups);

}  // namespace trainctl
