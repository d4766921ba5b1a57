#include "plan/time_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace trainctl::plan {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostKinds = 6;

std::string milliseconds(double ms) {
  return core::format_duration(ms / 1e3);
}

std::string row(std::string label, const std::string& value) {
  constexpr std::size_t kWidth = 17;
  label.resize(std::max(label.size() + 1, kWidth), ' ');
  return label + value + "\n";
}

std::string rate_of(double per_second) {
  if (per_second >= 100) return core::format_count(static_cast<std::int64_t>(std::llround(per_second)));
  return core::format_digits(per_second, 3);
}

ordered_json json_of(const KindTime& kind) {
  return {{"kind", name_of(kind.kind)},
          {"ms", kind.ms},
          {"calls", kind.calls},
          {"flops", kind.flops},
          {"bytes", kind.bytes}};
}

}  // namespace

TimePlan plan_time(const PredictedTime& time, const DryRunStep& step, const train::TrainConfig& config,
                   const Price& price) {
  TimePlan plan{.time = time};
  if (time.step_ms > 0) plan.samples_per_s = static_cast<double>(step.global_batch) / (time.step_ms / 1e3);
  plan.tokens_per_s = plan.samples_per_s * static_cast<double>(step.tokens_per_sample);
  if (config.steps) plan.finish = predict_finish(time, *config.steps, price);
  return plan;
}

std::string format_time(const TimePlan& plan) {
  const PredictedTime& time = plan.time;
  std::string text = "time of a step, by " + plan.basis + "\n";
  text += row("  forward", milliseconds(time.forward_ms));
  text += row("  backward", milliseconds(time.backward_ms));
  text += row("  optimizer", milliseconds(time.optimizer_ms));
  if (time.communication_ms > 0)
    text +=
        row("  communication", milliseconds(time.communication_ms) + ", of which the step waits for " +
                                   milliseconds(time.exposed_communication_ms) +
                                   "; as if all ranks were in one machine: a network between nodes is not modelled");
  std::string rate = rate_of(plan.samples_per_s) + " samples/s";
  if (plan.tokens_per_s > 0) rate += ", " + rate_of(plan.tokens_per_s) + " tokens/s";
  text += row("  together", milliseconds(time.step_ms) + ": " + rate);
  for (std::size_t i = 0; i < std::min(kMostKinds, time.kinds.size()); ++i)
    text += row("    " + std::string(name_of(time.kinds[i].kind)), milliseconds(time.kinds[i].ms));
  if (plan.finish)
    text +=
        row("to finish",
            core::format_duration(plan.finish->seconds) + " for " + core::format_count(plan.finish->steps) + " steps" +
                (plan.finish->cost > 0 ? ", at a cost of " + core::format_fixed(plan.finish->cost, 2) : ""));
  text.pop_back();
  return text;
}

ordered_json time_json(const TimePlan& plan) {
  const PredictedTime& time = plan.time;
  ordered_json kinds = ordered_json::array();
  for (const KindTime& kind : time.kinds) kinds.push_back(json_of(kind));
  ordered_json json{{"basis", plan.basis},
                    {"disturbed_share", plan.disturbed_share},
                    {"step_ms", time.step_ms},
                    {"forward_ms", time.forward_ms},
                    {"backward_ms", time.backward_ms},
                    {"optimizer_ms", time.optimizer_ms},
                    {"communication_ms", time.communication_ms},
                    {"exposed_communication_ms", time.exposed_communication_ms},
                    {"calls_ms", time.calls_ms},
                    {"samples_per_s", plan.samples_per_s},
                    {"tokens_per_s", plan.tokens_per_s},
                    {"kinds", kinds}};
  if (plan.finish) {
    json["steps"] = plan.finish->steps;
    json["finish_s"] = plan.finish->seconds;
    json["cost"] = plan.finish->cost;
  }
  if (time.communication_ms > 0) json["network_between_nodes"] = "not modelled";
  return json;
}

}  // namespace trainctl::plan
