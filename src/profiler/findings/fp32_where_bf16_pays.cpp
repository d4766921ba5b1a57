#include "core/text.h"
#include "profiler/findings/rules.h"

namespace trainctl::profiler {
namespace {

constexpr double kNotable = 0.05;  // of the step

/// Returns whether a product waits for memory, by the roofline. Cheaper arithmetic does not speed up such a product,
/// for example that of a single row.
bool waits_for_memory(const OperatorSummary& row, double flops_per_s, double bytes_per_s) {
  return row.flops > 0 && bytes_per_s > 0 && row.flops * bytes_per_s < row.bytes * flops_per_s;
}

}  // namespace

std::optional<Finding> fp32_where_bf16_pays(const ProfileSummary& summary) {
  if (summary.run.precision != "fp32" && summary.run.precision != "tf32") return {};
  const auto fp32 = summary.peaks.flops_per_s.find("fp32");
  const auto bf16 = summary.peaks.flops_per_s.find("bf16");
  if (fp32 == summary.peaks.flops_per_s.end() || bf16 == summary.peaks.flops_per_s.end()) return {};
  double ms = 0;
  for (const OperatorSummary& row : summary.operators.rows)
    if (row.has("fp32_matrix") && !waits_for_memory(row, fp32->second, summary.peaks.bytes_per_s))
      ms += row.device_ms.value_or(row.self_ms);
  const double ratio = bf16->second / fp32->second;
  const double gain = ratio > 1 ? ms * (1 - 1 / ratio) : 0;
  const double step = summary.steps.time.mean_ms;
  if (gain < kNotable * step) return {};
  return Finding{.rule = "fp32_where_bf16_pays",
                 .what = "Products are computed in " + summary.run.precision + ", which is slow here",
                 .evidence = percent(ms / step) + " of a step (" + ms_text(ms) + ") are products and convolutions in " +
                             summary.run.precision + "; this device multiplies " + core::format_fixed(ratio, 1) +
                             " times as fast in bf16",
                 .changes = {{"amp.mode", "bf16"}},
                 .gain_ms = gain,
                 .gain = time_gain(summary, gain)};
}

}  // namespace trainctl::profiler
