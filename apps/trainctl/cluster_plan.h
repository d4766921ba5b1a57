// `trainctl plan --nodes-of`: a step on a cluster, predicted without LibTorch.
#pragma once

#include <cstdint>
#include <string>

#include "command.h"

namespace trainctl::cli {

struct ClusterPlanOptions {
  std::int64_t world = 1;
  std::int64_t nodes_of = 0;  // 0: plan does not take this path
  std::string device;
  std::string network;  // a file, or the name of an entry; empty: the device's
  std::int64_t global_batch = 0;
  double memory_gib = 0;
  double cost_per_hour = 0;
  std::string html = {};  // empty: no page
  bool explain = false;
  bool json = false;
};

int plan_cluster(const ExperimentOptions& experiment, const ClusterPlanOptions& options);

}  // namespace trainctl::cli
