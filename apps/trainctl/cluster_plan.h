// `trainctl plan --nodes-of`: a step on a cluster, predicted without LibTorch.
#pragma once

#include <cstdint>
#include <string>

#include "command.h"
#include "engine_call.h"

namespace trainctl::cli {

/// What a plan of a cluster takes beside the options of every plan.
struct ClusterPlanOptions {
  std::int64_t nodes_of = 0;  // 0: plan does not take this path
  std::string network;        // a file, or the name of an entry; empty: the device's
  std::int64_t global_batch = 0;
  std::string html = {};  // empty: no page
  bool explain = false;
};

int plan_cluster(const ExperimentOptions& experiment, const PlanOptions& plan, const ClusterPlanOptions& options,
                 bool json);

}  // namespace trainctl::cli
