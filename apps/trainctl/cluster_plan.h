// `trainctl plan --nodes-of`: a step on a cluster, predicted without LibTorch.
#pragma once

#include <cstdint>
#include <string>

#include "cluster/tables.h"
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

/// Returns the name of the network: that of an entry, or of a file's only one, which is added to the tables.
std::string network_name(cluster::Tables& tables, const std::string& network);

int plan_cluster(const ExperimentOptions& experiment, const PlanOptions& plan, const ClusterPlanOptions& options,
                 bool json);

}  // namespace trainctl::cli
