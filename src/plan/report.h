// A plan as people and programs read it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "plan/dry_run.h"
#include "plan/plan.h"
#include "plan/time/step_time.h"
#include "train/config.h"

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

/// The time of a step, and what follows of it.
struct TimePlan {
  PredictedTime time;
  double samples_per_s = 0;      // of all ranks
  double tokens_per_s = 0;       // 0: not of text
  std::optional<Finish> finish;  // where the config says how many steps there are
  std::string basis;             // where the rates are from
  double disturbed_share = 0;    // of the time in which they were measured, that other programs took
};

/// Returns what follows of a step's time. `price`: of all ranks' devices; no price, no cost.
TimePlan plan_time(const PredictedTime& time, const DryRunStep& step, const train::TrainConfig& config,
                   const Price& price);

/// Lines without the last newline.
std::string format_time(const TimePlan& plan);
nlohmann::ordered_json time_json(const TimePlan& plan);

}  // namespace trainctl::plan
