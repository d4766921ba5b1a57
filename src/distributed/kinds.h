// The kinds of `distributed:`, each in a file of its own. Unlike build() of a whole config they take no short cut where
// there is one rank.
#pragma once

#include <memory>

#include "distributed/distributed.h"

namespace trainctl::distributed {

std::unique_ptr<Parallel> build(const DdpConfig& config, comm::DeviceMesh& mesh, model::Model& model);
/// Sums gradients after the last micro-batch, in pieces of `bucket_mib`: under a pipeline, where backward passes of
/// several stages end one after another.
std::unique_ptr<Parallel> build_summed(double bucket_mib, SyncBuffers policy, comm::DeviceMesh& mesh,
                                       model::Model& model);
/// A rank with a part of the model, laid out among those with the same part as `part` does. Null `stages`: it has all
/// blocks.
std::unique_ptr<Parallel> build_model_part(std::unique_ptr<Parallel> part, const PipelineStages* stages,
                                           comm::DeviceMesh& mesh, model::Model& model);
std::unique_ptr<Parallel> build(const ZeroConfig& config, comm::DeviceMesh& mesh, model::Model& model,
                                const model::FirstValues& first_values);

}  // namespace trainctl::distributed
