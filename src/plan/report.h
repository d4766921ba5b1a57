// A plan as people and programs read it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plan/plan.h"

namespace trainctl::plan {

/// How the plan was asked for.
struct PlanTitle {
  std::string experiment;
  std::string device;
  std::int64_t world = 1;
};

/// Lines without the last newline.
std::string format_plan(const PlanTitle& title, const MemoryPlan& plan);
/// Returns the numbers of the plan as JSON, memory in bytes.
nlohmann::ordered_json plan_json(const PlanTitle& title, const MemoryPlan& plan);

}  // namespace trainctl::plan
