#include <algorithm>
#include <numeric>

#include "core/text.h"
#include "profiler/findings/rules.h"

namespace trainctl::profiler {
namespace {

constexpr double kNotable = 0.1;   // of the pass
constexpr double kWorthIt = 0.03;  // of the step
constexpr double kUneven = 1.2;    // times the mean

}  // namespace

std::optional<Finding> pipeline_bubble(const ProfileSummary& summary) {
  if (!summary.distributed || !summary.distributed->pipeline) return {};
  const PipelineSummary& pipeline = *summary.distributed->pipeline;
  if (pipeline.bubble() < kNotable) return {};
  const auto busiest = std::ranges::max_element(pipeline.ranks, {}, &PipelineRank::compute_ms);
  const double mean = std::accumulate(pipeline.ranks.begin(), pipeline.ranks.end(), 0.0,
                                      [](double sum, const PipelineRank& rank) { return sum + rank.compute_ms; }) /
                      static_cast<double>(pipeline.ranks.size());
  const bool is_uneven = busiest->compute_ms > kUneven * mean;
  std::string evidence = "ranks wait " + percent(pipeline.bubble()) + " of a pass through the pipeline (" +
                         ms_text(pipeline.pass_ms) + ") for stages that are not done yet";
  if (is_uneven)
    evidence += "; place " + std::to_string(busiest - pipeline.ranks.begin()) + " of the pipeline computes for " +
                ms_text(busiest->compute_ms) + ", the mean of all places is " + ms_text(mean);
  const double step = summary.steps.time.mean_ms;
  const auto best = std::ranges::min_element(pipeline.alternatives, {}, &PipelineSummary::Alternative::pass_ms);
  const double gain = best == pipeline.alternatives.end() ? 0 : pipeline.simulated_ms - best->pass_ms;
  if (gain < kWorthIt * step && !is_uneven) return {};
  Finding finding{.rule = "pipeline_bubble",
                  .what = is_uneven ? "A stage of the pipeline has more work than the others"
                                    : "Ranks of the pipeline wait for each other",
                  .evidence = std::move(evidence),
                  .changes = {}};
  if (gain >= kWorthIt * step) {
    finding.changes = best->changes;
    finding.gain_ms = gain;
    finding.gain = time_gain(summary, gain) + ", by a simulation with the measured times";
  } else {
    finding.gain_ms = busiest->compute_ms - mean;
    finding.gain = time_gain(summary, finding.gain_ms) +
                   "; distributed.pipeline_split: {kind: by_hand, blocks: [...]} moves blocks";
  }
  return finding;
}

}  // namespace trainctl::profiler
