#include <algorithm>

#include "profiler/findings/rules.h"

namespace trainctl::profiler {
namespace {

constexpr double kOverheadMs = 0.004;  // of calling an operator, with autograd's part
constexpr double kLeastShare = 0.5;    // of the step that doesn't depend on its samples
constexpr std::int64_t kFactor = 4;    // by which the batch is to grow
constexpr double kMemoryRoom = 0.5;    // of the device that the larger step may take

/// Returns whether a product takes the time of reading its weights: with fewer FLOPs than bytes it has few rows.
bool reads_weights(const OperatorSummary& row) {
  return row.flops > 0 && row.flops < row.bytes;
}

/// Returns the time of a step that does not depend on the number of its samples. That is the calls of operators in the
/// forward and backward pass, reading weights for a row or two, and the update.
double fixed_ms(const ProfileSummary& summary) {
  double ms = summary.steps.ms(Part::optimizer);
  // What fusing the update saves is no reason for a larger batch.
  if (const std::optional<Finding> unfused = unfused_optimizer(summary)) ms = std::max(0.0, ms - unfused->gain_ms);
  for (const OperatorSummary& row : summary.operators.rows)
    if (row.phase == "forward" || row.phase == "backward")
      ms += reads_weights(row) ? row.self_ms : std::min(row.self_ms, row.calls * kOverheadMs);
  return std::min(ms, summary.steps.time.mean_ms);
}

double largest_step_mib(const ProfileSummary& summary) {
  const MemoryPoint& peak = summary.memory.peak;
  const double by_sample = peak.of(MemoryCategory::activations) + peak.of(MemoryCategory::workspace);
  return peak.allocated + static_cast<double>(kFactor - 1) * by_sample;
}

}  // namespace

std::optional<Finding> tiny_batch(const ProfileSummary& summary) {
  const double fixed = fixed_ms(summary);
  const double step = summary.steps.time.mean_ms;
  if (step <= 0 || fixed < kLeastShare * step) return {};
  if (summary.memory.limit_mib > 0 && largest_step_mib(summary) > kMemoryRoom * summary.memory.limit_mib) return {};
  const std::int64_t batch = std::max<std::int64_t>(1, summary.run.batch_size);
  std::vector<Change> changes;
  if (summary.run.micro_batches > 1)
    changes = {{"dataset.batch_size", std::to_string(batch * summary.run.micro_batches)}, {"accumulation.steps", "1"}};
  else
    changes = {{"dataset.batch_size", std::to_string(batch * kFactor)}};
  const auto factor = static_cast<double>(summary.run.micro_batches > 1 ? summary.run.micro_batches : kFactor);
  const double gain = fixed * (1 - 1 / factor);
  return Finding{.rule = "tiny_batch",
                 .what = "Batches are too small to fill the device",
                 .evidence = percent(fixed / step) + " of a step (" + ms_text(fixed) + " of " + ms_text(step) +
                             ") is spent on calls and the update, whatever the number of samples; a batch has " +
                             std::to_string(batch),
                 .changes = std::move(changes),
                 .gain_ms = gain,
                 .gain = time_gain(summary, gain) + " for the same samples"};
}

}  // namespace trainctl::profiler
