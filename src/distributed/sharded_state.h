// The state of sharded parameters: each rank shows the stretches that it keeps, as they lie. Nothing is gathered.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "distributed/units.h"
#include "optimizer/optimizer.h"
#include "runtime/state.h"

namespace trainctl::distributed {

/// Whose state it is.
struct ShardHolder {
  std::int64_t shard = 0;  // which part of each parameter this rank keeps
  std::int64_t copy = 0;   // the ranks that keep the same part are numbered
  std::int64_t num_copies = 1;
};

/// Returns what a rank has of the whole parameter: all of it, or its part of a layer that is split over ranks.
runtime::PartOf place_of_parameter(const at::Tensor& parameter, const std::optional<model::Shard>& shard);

/// Shows "model" and "optimizer": of sharded tensors this rank's stretch, of the others all. After a loader has filled
/// them, parameters that are kept whole have to be gathered anew.
void visit_sharded(runtime::State& state, optimizer::Optimizer& optimizer, std::vector<Unit>& units,
                   const ShardHolder& holder, model::Model& model);
/// Averages of what the optimizer updates.
void visit_sharded(runtime::State& state, optimizer::Ema& ema, const std::vector<Unit>& units,
                   const ShardHolder& holder);

}  // namespace trainctl::distributed
