#include <algorithm>

#include "profiler/findings/rules.h"

namespace trainctl::profiler {
namespace {

constexpr double kNotable = 0.03;    // of the step
constexpr double kFusedPasses = 7;   // over the weights' bytes: four tensors read, three written
constexpr double kFusedShare = 0.2;  // of the unfused update's time that a fused one takes at least

}  // namespace

std::optional<Finding> unfused_optimizer(const ProfileSummary& summary) {
  if (!summary.run.choices.could_fuse_update) return {};
  double update_ms = 0;
  double calls = 0;
  double bytes = 0;
  for (const OperatorSummary& row : summary.operators.rows) {
    if (row.phase != "optimizer") continue;
    update_ms += row.self_ms;
    calls += row.calls;
    bytes += row.bytes;
  }
  const double weights = summary.memory.peak.of(MemoryCategory::parameters) * (1 << 20);
  const double least_ms = summary.peaks.bytes_per_s > 0 ? 1e3 * kFusedPasses * weights / summary.peaks.bytes_per_s : 0;
  const double gain = update_ms - std::max(least_ms, kFusedShare * update_ms);
  if (gain < kNotable * summary.steps.time.mean_ms) return {};
  std::string evidence = "the update takes " + ms_text(update_ms) + " of a step of " +
                         ms_text(summary.steps.time.mean_ms) + " in " + std::to_string(static_cast<int>(calls)) +
                         " calls";
  if (weights > 0)
    evidence += ", which pass over the weights' memory " + std::to_string(static_cast<int>(bytes / weights)) + " times";
  return Finding{.rule = "unfused_optimizer",
                 .what = "The optimizer's update isn't fused",
                 .evidence = std::move(evidence),
                 .changes = {{"optimizer.fused", "true"}},
                 .gain_ms = gain,
                 .gain = time_gain(summary, gain, Certainty::expected)};
}

}  // namespace trainctl::profiler
