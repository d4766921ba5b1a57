// `trainctl plan --device here --nodes-of`: the experiment's own layout, with the times of this device.
#pragma once

#include "cluster_plan.h"

namespace trainctl::cli {

inline constexpr const char* kThisDevice = "here";

int plan_rehearsed(const ExperimentOptions& experiment, const PlanOptions& plan, const ClusterPlanOptions& options,
                   bool json);

}  // namespace trainctl::cli
