#include "profiler/findings/findings.h"

#include <algorithm>
#include <functional>

#include "profiler/findings/rules.h"

namespace trainctl::profiler {
namespace {

constexpr std::size_t kMost = 5;
constexpr Rule kRules[] = {
    slow_loader,           tiny_batch,           unfused_optimizer, needless_synchronisation, frequent_logging,
    layout_thrash,         fp32_where_bf16_pays, fragmentation,     memory_pressure,          needless_recomputation,
    exposed_communication, pipeline_bubble,      straggler};

/// Returns the weight of a finding: its shares of time and of memory. Memory that isn't short counts less.
double weight_of(const Finding& finding, const ProfileSummary& summary) {
  constexpr double kMemory = 0.25;
  const double step = summary.steps.time.mean_ms;
  const double peak = summary.memory.peak.allocated;
  const bool is_short = summary.memory.limit_mib > 0 && peak > 0.85 * summary.memory.limit_mib;
  return (step > 0 ? finding.gain_ms / step : 0) +
         (peak > 0 ? (is_short ? 1.0 : kMemory) * finding.gain_mib / peak : 0);
}

}  // namespace

std::vector<Finding> find_findings(const ProfileSummary& summary) {
  std::vector<Finding> findings;
  if (summary.num_steps() == 0) return findings;
  for (const Rule rule : kRules)
    if (std::optional<Finding> finding = rule(summary)) findings.push_back(std::move(*finding));
  std::ranges::stable_sort(findings, std::greater{},
                           [&](const Finding& finding) { return weight_of(finding, summary); });
  if (findings.size() > kMost) findings.resize(kMost);
  return findings;
}

}  // namespace trainctl::profiler
