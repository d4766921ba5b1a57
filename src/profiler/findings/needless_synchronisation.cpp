#include <algorithm>

#include "profiler/findings/rules.h"

namespace trainctl::profiler {
namespace {

constexpr double kNotable = 0.02;                  // of the step
constexpr double kIdle = 0.05;                     // of the step in which a GPU has nothing to do
constexpr double kNotableExchange = 0.05;          // of the step
constexpr std::int64_t kEnoughForStatistics = 16;  // samples of a rank: https://arxiv.org/abs/1803.08494, figure 1
constexpr const char* kSyncBatchNorm = "distributed.sync_batch_norm";

/// Returns the changes against the causes by which the host reads the device in every step.
std::vector<Change> changes_for(const ProfileSummary& summary) {
  const RunChoices& now = summary.run.choices;
  if (now.log_every < 10) return {{"train.log_every", "50"}};
  if (now.reads_overflow_flag && summary.run.precision == "fp16") return {{"amp.mode", "bf16"}};
  if (now.synchronizes_batch_norm) return {{kSyncBatchNorm, "false"}};
  if (now.finds_unused_parameters) return {{"distributed.find_unused_parameters", "false"}};
  return {{"train.on_non_finite", "stop"}};
}

std::optional<Finding> host_waits_for_device(const ProfileSummary& summary) {
  if (summary.device.kind == "cpu") return {};  // it computes while it is waited for
  const double step = summary.steps.time.mean_ms;
  const double idle = (1 - summary.steps.device_utilization) * step;
  const double gain = std::min(summary.host.sync_ms, idle);
  if (gain < kNotable * step || idle < kIdle * step) return {};
  return Finding{.rule = "needless_synchronisation",
                 .what = "The host waits for the device within the step",
                 .evidence = "a step reads " + std::to_string(static_cast<int>(summary.host.reads + 0.5)) +
                             " values back and waits " + ms_text(summary.host.sync_ms) +
                             " for the device, which is idle " + percent(idle / step) + " of the time",
                 .changes = changes_for(summary),
                 .gain_ms = gain,
                 .gain = time_gain(summary, gain)};
}

/// Finds ranks that wait in BatchNorm, although each has enough samples of its own for the statistics.
std::optional<Finding> ranks_wait_in_batch_norm(const ProfileSummary& summary) {
  if (!summary.run.choices.synchronizes_batch_norm || summary.run.batch_size < kEnoughForStatistics) return {};
  const double gain = std::min(summary.host.batch_norm_ms, exposed_on_every_rank(summary));
  const double step = summary.steps.time.mean_ms;
  if (gain <= 0 || gain < kNotableExchange * step) return {};
  return Finding{.rule = "needless_synchronisation",
                 .what = "Ranks wait for each other in every BatchNorm",
                 .evidence = percent(gain / step) + " of a step (" + ms_text(gain) + " of " + ms_text(step) +
                             ") exchanges statistics between layers, although each rank has " +
                             std::to_string(summary.run.batch_size) + " samples of its own to take them from",
                 .changes = {{kSyncBatchNorm, "false"}},
                 .gain_ms = gain,
                 .gain = time_gain(summary, gain)};
}

}  // namespace

std::optional<Finding> needless_synchronisation(const ProfileSummary& summary) {
  std::optional<Finding> device = host_waits_for_device(summary);
  std::optional<Finding> ranks = ranks_wait_in_batch_norm(summary);
  if (!device || (ranks && ranks->gain_ms > device->gain_ms)) return ranks;
  return device;
}

}  // namespace trainctl::profiler
