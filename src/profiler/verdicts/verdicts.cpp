#include "profiler/verdicts/verdicts.h"

#include <algorithm>
#include <functional>

#include "profiler/verdicts/rules.h"

namespace trainctl::profiler {
namespace {

constexpr std::size_t kMost = 5;
constexpr Rule kRules[] = {slow_loader,           tiny_batch,
                           unfused_optimizer,     needless_synchronisation,
                           frequent_logging,      layout_thrash,
                           fp32_where_bf16_pays,  fragmentation,
                           memory_pressure,       needless_recomputation,
                           exposed_communication, straggler};

/// Time and memory on one scale: their shares. Memory that isn't short is worth less.
double weight_of(const Verdict& verdict, const ProfileSummary& summary) {
  constexpr double kMemory = 0.25;
  const double step = summary.steps.time.mean_ms;
  const double peak = summary.memory.peak.allocated;
  const bool is_short = summary.memory.limit_mib > 0 && peak > 0.85 * summary.memory.limit_mib;
  return (step > 0 ? verdict.gain_ms / step : 0) +
         (peak > 0 ? (is_short ? 1.0 : kMemory) * verdict.gain_mib / peak : 0);
}

}  // namespace

std::vector<Verdict> find_verdicts(const ProfileSummary& summary) {
  std::vector<Verdict> verdicts;
  if (summary.num_steps() == 0) return verdicts;
  for (const Rule rule : kRules)
    if (std::optional<Verdict> verdict = rule(summary)) verdicts.push_back(std::move(*verdict));
  std::ranges::stable_sort(verdicts, std::greater{},
                           [&](const Verdict& verdict) { return weight_of(verdict, summary); });
  if (verdicts.size() > kMost) verdicts.resize(kMost);
  return verdicts;
}

}  // namespace trainctl::profiler
