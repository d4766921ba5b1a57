#include <algorithm>

#include "profiler/findings/rules.h"

namespace trainctl::profiler {
namespace {

constexpr double kNotable = 0.1;  // of the step

}  // namespace

std::optional<Finding> exposed_communication(const ProfileSummary& summary) {
  if (!summary.distributed || summary.distributed->ranks.empty()) return {};
  // What BatchNorm waits for isn't gradients.
  const double exposed = exposed_on_every_rank(summary) - summary.host.batch_norm_ms;
  const double step = summary.steps.time.mean_ms;
  if (exposed < kNotable * step) return {};
  const std::int64_t accumulated = std::max<std::int64_t>(1, summary.run.micro_batches);
  const double gain = exposed / 2;
  std::vector<Change> changes{{"accumulation.steps", std::to_string(2 * accumulated)}};
  if (summary.run.choices.could_compress_gradients) changes.push_back({"distributed.gradient_compression", "bf16"});
  return Finding{.rule = "exposed_communication",
                 .what = "Steps wait for the other ranks' gradients",
                 .evidence = percent(exposed / step) + " of a step (" + ms_text(exposed) + " of " + ms_text(step) +
                             ") waits for the network on every rank; of " +
                             ms_text(summary.distributed->communication_ms) + " communication the rest is hidden",
                 .changes = std::move(changes),
                 .gain_ms = gain,
                 .gain = time_gain(summary, gain) + " for the same samples"};
}

}  // namespace trainctl::profiler
