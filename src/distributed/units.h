// The blocks of a model as units that are sharded and gathered.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "distributed/flat_parameters.h"
#include "distributed/offloaded_optimizer.h"

namespace trainctl::distributed {

/// A block's parameters. Those without a gradient lie apart, or they would have one by their place.
struct Unit {
  std::unique_ptr<FlatParameters> trained;  // null: there are none
  std::unique_ptr<FlatParameters> frozen;   // null: there are none, or they are whole everywhere

  OptimizedUnit pieces;  // this rank's, which the optimizer updates
  at::Tensor gradients;  // [numel] of all trained parameters: kept (stage 1), or while they are reduced
  at::Tensor reduced;    // [shard]: what the reduction under way writes
  at::Tensor sum;        // [shard]: over ranks and micro-batches
  std::unique_ptr<comm::Work> reducing;
  std::unique_ptr<comm::Work> crossing;  // the sum of `sum` over those with the same shard
  std::size_t num_ready = 0;             // trained parameters whose gradient is done

  void bring();
  void start_gather();
  void gather();
  void release();
};

/// In the order of blocks; parameters of no block come last.
std::vector<Unit> make_units(model::Model& model, const ShardLayout& layout);

/// Numbers of the units that hold what the block uses: its own, and those of weights that it shares.
std::vector<std::size_t> units_used(const std::vector<Unit>& units, model::Model& model, const model::Block& block);

/// Calls `ready` when a backward pass has added to the parameter's .grad for the last time.
void on_gradient(const at::Tensor& parameter, std::function<void()> ready);

}  // namespace trainctl::distributed
