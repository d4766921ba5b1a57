// The time of a step as people and programs read it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "plan/dry_run.h"
#include "plan/time/step_time.h"
#include "train/config.h"

namespace trainctl::plan {

struct TimePlan {
  PredictedTime time;
  double samples_per_s = 0;      // of all ranks
  double tokens_per_s = 0;       // 0: not of text
  std::optional<Finish> finish;  // where the config says how many steps there are
  std::string basis;             // where the rates are from
  double disturbed_share = 0;    // of the time in which they were measured, that other programs took
};

/// `price`: of all ranks' devices; no price, no cost.
TimePlan plan_time(const PredictedTime& time, const DryRunStep& step, const train::TrainConfig& config,
                   const Price& price);

/// Lines without the last newline.
std::string format_time(const TimePlan& plan);
nlohmann::ordered_json time_json(const TimePlan& plan);

}  // namespace trainctl::plan
