#include "profiler/findings/rules.h"

namespace trainctl::profiler {
namespace {

constexpr double kNearlyFull = 0.85;  // of the device
constexpr double kMostly = 0.4;       // of the peak
constexpr double kRecomputed = 0.7;   // of the activations that needn't be kept

}  // namespace

std::optional<Finding> memory_pressure(const ProfileSummary& summary) {
  const MemoryPoint& peak = summary.memory.peak;
  const double activations = peak.of(MemoryCategory::activations);
  if (summary.memory.limit_mib <= 0 || peak.allocated < kNearlyFull * summary.memory.limit_mib) return {};
  if (activations < kMostly * peak.allocated || summary.run.choices.recomputes) return {};
  return Finding{.rule = "memory_pressure",
                 .what = "Activations nearly fill the memory",
                 .evidence = "memory peaks at " + mib_text(peak.allocated) + " of " +
                             mib_text(summary.memory.limit_mib) + "; " + mib_text(activations) +
                             " of that are activations",
                 .changes = {{"activation_checkpointing", "full"}},
                 .gain_mib = kRecomputed * activations,
                 .gain = "about " + mib_text(kRecomputed * activations) + ", for a third more computing"};
}

}  // namespace trainctl::profiler
