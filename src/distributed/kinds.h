// The kinds of `distributed:`, each in a file of its own. Unlike build() of a whole config they take no short cut where
// the group has one member.
#pragma once

#include <memory>

#include "distributed/distributed.h"

namespace trainctl {

std::unique_ptr<Parallel> build(const DdpConfig& config, Group& group, Model& model);
std::unique_ptr<Parallel> build(const ZeroConfig& config, Group& group, Model& model, const FirstValues& first_values);

}  // namespace trainctl
