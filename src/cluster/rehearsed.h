// A step of the experiment's own layout, made of what its ranks computed on this device and what a network takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/collectives.h"
#include "replay/replay.h"

namespace trainctl::cluster {

/// What a communication takes on the cluster's network, whose nodes have `nodes_of` ranks each.
replay::Cost cost_of(const replay::Communication& what, const Collectives& collectives, std::int64_t nodes_of);

struct RehearsedStep {
  std::string experiment;
  std::int64_t world = 1;
  std::int64_t nodes_of = 1;
  std::string network;
  replay::StepReplay step;
};

std::string format_rehearsed(const RehearsedStep& rehearsed);
std::string format_rehearsed_json(const RehearsedStep& rehearsed);

}  // namespace trainctl::cluster
