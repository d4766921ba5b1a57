// The state of sharded parameters as whole tensors, which are the same whatever the layout.
#pragma once

#include <vector>

#include "distributed/units.h"
#include "optimizer/optimizer.h"
#include "runtime/state.h"

namespace trainctl {

/// Shows "model" and "optimizer" unit by unit: gathers each tensor, shows it, and takes this rank's part back, so that
/// the same walk saves and loads. Called by all members; one unit's tensors are whole at a time.
void visit_whole(State& state, Optimizer& optimizer, std::vector<Unit>& units, Group& group, Model& model);

}  // namespace trainctl
