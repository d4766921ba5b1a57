#include "plan/plan.h"

#include <algorithm>

#include "core/text.h"

namespace trainctl::plan {

MemoryPlan plan_memory(const experiment::Experiment& experiment, const DryRunOptions& options, const MemoryLimit& limit,
                       FitSearch search) {
  MemoryPlan plan{.step = dry_run_step(experiment, options), .limit = limit};
  if (search == FitSearch::largest_batch) plan.largest_batch = largest_batch(experiment, options, limit, plan.step);
  if (!plan.fits()) plan.changes = changes_that_fit(experiment, options, limit);
  return plan;
}

bool MemoryPlan::surely_exceeds() const {
  constexpr double kErrorOfPredictions = 0.05;
  return static_cast<double>(step.at_peak.total()) >
         (1 + kErrorOfPredictions) * static_cast<double>(limit.for_tensors());
}

core::Error refusal_of(const MemoryPlan& plan, const runtime::DeviceConfig& device) {
  MemoryPlan unchanged = plan;
  unchanged.changes.clear();
  core::Error error("the run won't fit: it " + warning_of(unchanged) +
                    (device.memory_limit_mib ? " (device.memory_limit_mib)" : ""));
  if (plan.changes.empty()) return error.hint("nothing that was tried makes it fit: more ranks, or a larger device");
  std::string ways;
  for (const FitSuggestion& change : plan.changes)
    ways += (ways.empty() ? "" : "; or ") + text_of(change.settings) + ", predicted to take " +
            core::format_bytes(static_cast<double>(change.peak_bytes + plan.limit.overhead));
  return error.hint(ways);
}

std::string warning_of(const MemoryPlan& plan) {
  if (plan.fits()) return "";
  const auto bytes = [](std::int64_t value) { return core::format_bytes(static_cast<double>(value)); };
  const HeldMemory& held = plan.step.at_peak;
  const auto* most = std::max_element(std::begin(held.bytes), std::end(held.bytes));
  std::string text = "needs " + bytes(held.total() + plan.limit.overhead) + " on each rank, of which " + bytes(*most) +
                     " are " + std::string(name_of(static_cast<Purpose>(most - std::begin(held.bytes)))) +
                     ", but there are " + bytes(plan.limit.bytes);
  return text + (plan.changes.empty() ? "" : "; it fits with " + text_of(plan.changes.front().settings));
}

std::string text_of(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& setting : settings) text += (text.empty() ? "" : ", ") + setting.path + ": " + setting.value;
  return text;
}

}  // namespace trainctl::plan
