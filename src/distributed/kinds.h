// The kinds of `distributed:`, each in a file of its own. Unlike build() of a whole config they take no short cut where
// there is one rank.
#pragma once

#include <memory>

#include "distributed/distributed.h"

namespace trainctl::distributed {

std::unique_ptr<Parallel> build(const DdpConfig& config, comm::DeviceMesh& mesh, model::Model& model);
std::unique_ptr<Parallel> build(const ZeroConfig& config, comm::DeviceMesh& mesh, model::Model& model,
                                const model::FirstValues& first_values);

}  // namespace trainctl::distributed
