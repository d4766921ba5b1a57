#include <algorithm>

#include "profiler/findings/rules.h"

namespace trainctl::profiler {
namespace {

constexpr double kTolerable = 0.05;  // of the step, as training's own warning

std::vector<Change> changes_for(const ProfileSummary& summary) {
  const std::string& cause = summary.data.wait_cause;
  const RunChoices& now = summary.run.choices;
  if (cause == "copy") return {{"dataset.pin_memory", "true"}};
  if (now.num_workers && *now.num_workers < summary.device.cores) return {{"dataset.num_workers", "auto"}};
  if (cause == "decode" && now.cache_mib == 0)
    return {{"dataset.image_cache.size_mib", std::to_string(std::max<std::int64_t>(
                                                 256, static_cast<std::int64_t>(summary.device.host_memory_mib / 4)))}};
  return {{"dataset.num_workers", std::to_string(std::max<std::int64_t>(2, 2 * summary.data.workers))}};
}

}  // namespace

std::optional<Finding> slow_loader(const ProfileSummary& summary) {
  const double wait = summary.steps.ms(Part::data_wait);
  if (summary.steps.share(Part::data_wait) <= kTolerable) return {};
  std::string evidence = percent(summary.steps.share(Part::data_wait)) + " of a step (" + ms_text(wait) + " of " +
                         ms_text(summary.steps.time.mean_ms) + ") waits for data; the loader has " +
                         std::to_string(summary.data.workers) + (summary.data.workers == 1 ? " thread" : " threads") +
                         " of " + std::to_string(summary.device.cores) + " cores";
  if (summary.data.wait_cause != "none") evidence += ", and its time goes into " + summary.data.wait_cause;
  return Finding{.rule = "slow_loader",
                 .what = "Steps wait for data",
                 .evidence = std::move(evidence),
                 .changes = changes_for(summary),
                 .gain_ms = wait,
                 .gain = time_gain(summary, wait)};
}

}  // namespace trainctl::profiler
