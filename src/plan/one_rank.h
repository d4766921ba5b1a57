// One rank of a run with others that aren't there: the layout of its memory without their communication.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "plan/dry_run.h"
#include "train/run/run.h"

namespace trainctl::plan {

/// The layout that the rank itself would have: c10d's Reducer needs ranks that are there. Training for eight bits
/// rounds at once, since it holds most from then on.
experiment::Experiment as_one_rank(const experiment::Experiment& experiment, const DryRunOptions& options);

/// Returns the experiment with as few micro-batches as hold as much in a pipeline. Its ranks have some in flight, and
/// later ones take the places of others. Schedules that keep all have all.
experiment::Experiment with_fewest_micro_batches(experiment::Experiment experiment);

/// The memory that communication keeps between steps, beside the model's and the optimizer's.
struct CommunicationMemory {
  std::vector<at::Tensor> gradients;    // one for each parameter: views of c10d's buckets; empty: not kept
  std::vector<at::Tensor> compression;  // PowerSGD's errors and matrices

  /// Puts the gradients in their places, before the first step and after each.
  void attach(train::Run& run) const;
};
CommunicationMemory communication_memory(const distributed::DistributedConfig& config, const train::Run& run);

}  // namespace trainctl::plan
