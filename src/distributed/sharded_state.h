// The state of sharded parameters: each rank shows the stretches that it keeps, as they lie. Nothing is gathered.
#pragma once

#include <vector>

#include "distributed/shard_groups.h"
#include "distributed/units.h"
#include "optimizer/optimizer.h"
#include "runtime/state.h"

namespace trainctl::distributed {

/// Shows "model" and "optimizer": of sharded tensors this rank's stretch, of the others all. After a loader has filled
/// them, parameters that are kept whole have to be gathered anew.
void visit_sharded(runtime::State& state, optimizer::Optimizer& optimizer, std::vector<Unit>& units,
                   const ShardGroups& groups, model::Model& model);
/// Averages of what the optimizer updates.
void visit_sharded(runtime::State& state, optimizer::Ema& ema, const std::vector<Unit>& units,
                   const ShardGroups& groups);

}  // namespace trainctl::distributed
