#include "profiler/findings/rules.h"

namespace trainctl::profiler {
namespace {

constexpr double kNotable = 0.05;  // of the step
constexpr double kRoomFactor = 4;  // times the peak that must fit for keeping all to be safe

}  // namespace

std::optional<Finding> needless_recomputation(const ProfileSummary& summary) {
  const double ms = summary.host.recompute_ms;
  const double step = summary.steps.time.mean_ms;
  if (ms < kNotable * step || summary.memory.limit_mib <= 0) return {};
  if (kRoomFactor * summary.memory.peak.allocated > summary.memory.limit_mib) return {};
  return Finding{.rule = "needless_recomputation",
                 .what = "Blocks are recomputed although their activations would fit",
                 .evidence = percent(ms / step) + " of a step (" + ms_text(ms) + ") recomputes; memory peaks at " +
                             mib_text(summary.memory.peak.allocated) + " of " + mib_text(summary.memory.limit_mib),
                 .changes = {{"activation_checkpointing", "none"}},
                 .gain_ms = ms,
                 .gain = time_gain(summary, ms, Certainty::expected)};
}

}  // namespace trainctl::profiler
