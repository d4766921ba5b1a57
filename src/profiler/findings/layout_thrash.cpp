#include <algorithm>

#include "profiler/findings/rules.h"

namespace trainctl::profiler {
namespace {

constexpr double kNotable = 0.03;     // of the step
constexpr double kMuchFaster = 0.85;  // the other format's time over this one's

struct Copies {
  double ms = 0;
  double calls = 0;
};

Copies copies_between_formats(const ProfileSummary& summary) {
  Copies copies;
  for (const OperatorSummary& row : summary.operators.rows) {
    if (!row.has("layout_conversion") || row.phase == "other") continue;
    copies.ms += row.device_ms.value_or(row.self_ms);
    copies.calls += row.calls;
  }
  for (const KernelSummary& row : summary.kernels.rows) {
    if (std::ranges::find(row.flags, "layout_conversion") == row.flags.end()) continue;
    copies.ms += row.ms;
    copies.calls += row.calls;
  }
  return copies;
}

/// Returns whether the other format was measured to be slower. Copies alone do not show that: weights' gradients are
/// copied in either format.
bool other_is_slower(const ProfileSummary& summary) {
  if (!summary.layout) return false;
  const double difference = summary.layout->channels_last_ms - summary.layout->contiguous_ms;
  return summary.run.memory_format == "contiguous" ? difference > 0 : difference < 0;
}

bool is_convolution(const std::string& name) {
  return name.find("convolution") != std::string::npos || name.find("conv2d") != std::string::npos;
}

/// Returns the time that convolutions would save in the other format: libraries copy to it and back inside them.
double saved_in_convolutions(const ProfileSummary& summary) {
  if (!summary.layout) return 0;
  const bool is_contiguous = summary.run.memory_format == "contiguous";
  const double now = is_contiguous ? summary.layout->contiguous_ms : summary.layout->channels_last_ms;
  const double other = is_contiguous ? summary.layout->channels_last_ms : summary.layout->contiguous_ms;
  if (now <= 0 || other > kMuchFaster * now) return 0;
  double ms = 0;
  for (const OperatorSummary& row : summary.operators.rows)
    if (is_convolution(row.name)) ms += row.device_ms.value_or(row.self_ms);
  return ms * (1 - other / now);
}

}  // namespace

std::optional<Finding> layout_thrash(const ProfileSummary& summary) {
  if (summary.run.memory_format.empty() || other_is_slower(summary)) return {};
  const Copies copies = copies_between_formats(summary);
  const double saved = saved_in_convolutions(summary);
  const double gain = copies.ms + saved;
  if (gain < kNotable * summary.steps.time.mean_ms) return {};
  std::string evidence = "the model's format is " + summary.run.memory_format;
  if (copies.ms > 0)
    evidence += "; " + std::to_string(static_cast<int>(copies.calls + 0.5)) +
                " copies to or from the other a step take " + ms_text(copies.ms);
  if (saved > 0)
    evidence += "; its slowest convolutions take " + ms_text(summary.layout->contiguous_ms) + " contiguous and " +
                ms_text(summary.layout->channels_last_ms) + " channels_last";
  const std::string other = summary.run.memory_format == "contiguous" ? "channels_last" : "contiguous";
  return Finding{.rule = "layout_thrash",
                 .what = "Images lie in the slower memory format",
                 .evidence = std::move(evidence),
                 .changes = {{"model.memory_format", other}},
                 .gain_ms = gain,
                 .gain = time_gain(summary, gain)};
}

}  // namespace trainctl::profiler
