#include "plan/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace trainctl::plan {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostBlocks = 6;
constexpr std::size_t kLabel = 17;

/// Returns "1.24 G", for counts of parameters and operations.
std::string scaled(double value) {
  static constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P", " E"};
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return core::format_digits(value, 4) + kUnits[unit];
}

void add_line(std::string& text, std::string_view label, const std::string& value) {
  text += std::string(label) + std::string(label.size() < kLabel ? kLabel - label.size() : 1, ' ') + value + "\n";
}

std::string where(const Moment& moment) {
  return moment.phase + (moment.block.empty() ? "" : ", in " + moment.block);
}

std::vector<BlockMemory> largest(std::vector<BlockMemory> blocks) {
  std::stable_sort(blocks.begin(), blocks.end(), [](const BlockMemory& one, const BlockMemory& other) {
    return one.activation_bytes > other.activation_bytes;
  });
  if (blocks.size() > kMostBlocks) blocks.resize(kMostBlocks);
  return blocks;
}

void add_memory(std::string& text, const MemoryPlan& plan) {
  const DryRunStep& step = plan.step;
  text += "\nmemory of a rank at its peak (" + where(step.peak) + ")\n";
  for (std::size_t i = 0; i < kNumPurposes; ++i)
    if (step.at_peak.bytes[i] > 0)
      add_line(text, "  " + std::string(name_of(static_cast<Purpose>(i))), core::format_bytes(step.at_peak.bytes[i]));
  add_line(text, "  process", core::format_bytes(plan.limit.overhead));
  add_line(text, "  together",
           core::format_bytes(step.at_peak.total() + plan.limit.overhead) + " of " +
               core::format_bytes(plan.limit.bytes) + (plan.fits() ? ": it fits" : ": it does NOT fit"));
  for (const StageMemory& stage : step.stages)
    add_line(text, "  rank " + std::to_string(stage.rank) + " of the pipeline",
             core::format_bytes(stage.peak_bytes) + ", of which it keeps " + core::format_bytes(stage.kept_bytes));
  for (const BlockMemory& block : largest(step.blocks))
    if (!block.block.empty()) add_line(text, "    " + block.block, core::format_bytes(block.activation_bytes));
}

void add_advice(std::string& text, const MemoryPlan& plan) {
  if (plan.largest_batch > 0)
    add_line(text, "largest batch", "dataset.batch_size: " + core::format_count(plan.largest_batch) + " fits");
  else
    add_line(text, "largest batch", "not even one sample fits");
  if (plan.fits()) return;
  text += plan.changes.empty() ? "nothing that was tried makes it fit: more ranks (--world), or a larger device\n"
                               : "it fits with\n";
  for (const FitSuggestion& change : plan.changes)
    text += "  " + text_of(change.settings) + "  (" + core::format_bytes(change.peak_bytes + plan.limit.overhead) +
            "; " + change.why + ")\n";
}

ordered_json json_of(const std::vector<FitSuggestion>& changes) {
  ordered_json list = ordered_json::array();
  for (const FitSuggestion& change : changes) {
    ordered_json settings = ordered_json::object();
    for (const Setting& setting : change.settings) settings[setting.path] = setting.value;
    list.push_back({{"set", settings}, {"peak_bytes", change.peak_bytes}, {"why", change.why}});
  }
  return list;
}

ordered_json json_of(const std::vector<StageMemory>& stages) {
  ordered_json list = ordered_json::array();
  for (const StageMemory& stage : stages)
    list.push_back({{"rank", stage.rank}, {"peak_bytes", stage.peak_bytes}, {"kept_bytes", stage.kept_bytes}});
  return list;
}

ordered_json json_of(const DryRunStep& step) {
  ordered_json categories = ordered_json::object();
  for (std::size_t i = 0; i < kNumPurposes; ++i)
    categories[std::string(name_of(static_cast<Purpose>(i)))] = step.at_peak.bytes[i];
  ordered_json blocks = ordered_json::array();
  for (const BlockMemory& block : step.blocks)
    blocks.push_back({{"block", block.block}, {"activation_bytes", block.activation_bytes}});
  ordered_json timeline = ordered_json::array();
  for (const TimelinePoint& point : step.timeline)
    timeline.push_back({{"event", point.event}, {"held_bytes", point.held_bytes}, {"phase", point.phase}});
  return {{"peak_bytes", step.at_peak.total()},
          {"peak_by_purpose", categories},
          {"peak_phase", step.peak.phase},
          {"peak_block", step.peak.block},
          {"kept_bytes", step.kept_bytes},
          {"pipeline_ranks", json_of(step.stages)},
          {"blocks", blocks},
          {"timeline", timeline}};
}

constexpr std::size_t kMostKinds = 6;

std::string milliseconds(double ms) {
  return core::format_duration(ms / 1e3);
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

std::string format_plan(const PlanTitle& title, const MemoryPlan& plan) {
  const DryRunStep& step = plan.step;
  std::string text;
  add_line(text, "plan", title.experiment + " on " + core::format_count(title.world) + " × " + title.device);
  add_line(text, "parameters",
           scaled(static_cast<double>(step.num_parameters)) +
               (step.num_own_parameters == step.num_parameters
                    ? ""
                    : ", of which a rank has " + scaled(static_cast<double>(step.num_own_parameters))) +
               (step.num_trained == step.num_own_parameters
                    ? ""
                    : ", of which " + scaled(static_cast<double>(step.num_trained)) + " are trained"));
  if (step.flops_per_sample > 0) add_line(text, "FLOPs", scaled(step.flops_per_sample) + " a sample, forward");
  const std::int64_t num_sharing_batch =
      step.global_batch / std::max<std::int64_t>(1, step.batch_size * step.micro_batches);
  add_line(text, "step",
           core::format_count(step.batch_size) + " samples × " + core::format_count(step.micro_batches) +
               " micro-batches × " + core::format_count(num_sharing_batch) +
               (num_sharing_batch == title.world ? " ranks = " : " copies of the model = ") +
               core::format_count(step.global_batch) +
               (step.tokens_per_sample > 0 ? " of " + core::format_count(step.tokens_per_sample) + " tokens" : ""));
  add_memory(text, plan);
  add_advice(text, plan);
  text.pop_back();
  return text;
}

ordered_json plan_json(const PlanTitle& title, const MemoryPlan& plan) {
  const DryRunStep& step = plan.step;
  return {{"experiment", title.experiment},
          {"device", title.device},
          {"world", title.world},
          {"num_parameters", step.num_parameters},
          {"num_own_parameters", step.num_own_parameters},
          {"num_trained", step.num_trained},
          {"flops_per_sample", step.flops_per_sample},
          {"batch_size", step.batch_size},
          {"micro_batches", step.micro_batches},
          {"global_batch", step.global_batch},
          {"tokens_per_sample", step.tokens_per_sample},
          {"memory", json_of(step)},
          {"memory_bytes", plan.limit.bytes},
          {"process_bytes", plan.limit.overhead},
          {"fits", plan.fits()},
          {"largest_batch", plan.largest_batch},
          {"changes", json_of(plan.changes)}};
}

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
  add_line(text, "  forward", milliseconds(time.forward_ms));
  add_line(text, "  backward", milliseconds(time.backward_ms));
  add_line(text, "  optimizer", milliseconds(time.optimizer_ms));
  if (time.communication_ms > 0)
    add_line(text, "  communication",
             milliseconds(time.communication_ms) + ", of which the step waits for " +
                 milliseconds(time.exposed_communication_ms) +
                 "; as if all ranks were in one machine: a network between nodes is not modelled");
  std::string rate = rate_of(plan.samples_per_s) + " samples/s";
  if (plan.tokens_per_s > 0) rate += ", " + rate_of(plan.tokens_per_s) + " tokens/s";
  add_line(text, "  together", milliseconds(time.step_ms) + ": " + rate);
  for (std::size_t i = 0; i < std::min(kMostKinds, time.kinds.size()); ++i)
    add_line(text, "    " + std::string(name_of(time.kinds[i].kind)), milliseconds(time.kinds[i].ms));
  if (plan.finish)
    add_line(text, "to finish",
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
