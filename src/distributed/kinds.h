// The kinds of `distributed:`, each in a file of its own. Unlike build() of a whole config they take no short cut where
// the group has one member.
#pragma once

#include <memory>

#include "distributed/distributed.h"

namespace trainctl::distributed {

std::unique_ptr<Parallel> build(const DdpConfig& config, comm::Group& group, model::Model& model);
std::unique_ptr<Parallel> build(const ZeroConfig& config, comm::Group& group, model::Model& model,
                                const model::FirstValues& first_values);

}  // namespace trainctl::distributed
