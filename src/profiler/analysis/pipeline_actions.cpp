#include <algorithm>
#include <limits>

#include "core/units.h"
#include "profiler/analysis/analysis.h"
#include "runtime/span.h"

namespace trainctl::profiler {
namespace {

struct HostAction {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t device_begin_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t device_end_ns = 0;
};

/// Adds to each action the kernels that were launched while it lasted, by whichever thread: autograd has its own.
void add_kernels(const Capture& capture, std::vector<HostAction>& actions) {
  for (const CapturedKernel& kernel : capture.kernels) {
    if (kernel.event < 0 || kernel.work == DeviceWork::collective) continue;
    const std::int64_t launch_ns = capture.event(kernel.event).begin_ns;
    auto after = std::ranges::upper_bound(actions, launch_ns, {}, &HostAction::begin_ns);
    if (after == actions.begin() || launch_ns > (--after)->end_ns) continue;
    after->device_begin_ns = std::min(after->device_begin_ns, kernel.begin_ns);
    after->device_end_ns = std::max(after->device_end_ns, kernel.end_ns);
  }
}

}  // namespace

double PipelineSummary::bubble() const {
  double sum = 0;
  for (const PipelineRank& rank : ranks) sum += rank.bubble_ms;
  return pass_ms > 0 && !ranks.empty() ? sum / pass_ms / static_cast<double>(ranks.size()) : 0;
}

std::vector<PipelineStep> analyse_pipeline(const Capture& capture) {
  std::vector<PipelineStep> steps;
  for (const CapturedStep& step : capture.steps) {
    std::vector<HostAction> actions;
    std::int64_t zero_ns = step.begin_ns;
    for (std::size_t i = static_cast<std::size_t>(step.event) + 1; i < capture.events.size(); ++i) {
      const CapturedEvent& event = capture.events[i];
      if (event.thread != capture.event(step.event).thread || event.kind != EventKind::span) continue;
      if (event.begin_ns >= step.end_ns) break;
      const std::string& name = capture.name_of(event.name);
      if (name == "count" && actions.empty()) zero_ns = event.end_ns;
      if (name.starts_with(runtime::kActionSpan))
        actions.push_back({.begin_ns = event.begin_ns, .end_ns = event.end_ns});
    }
    if (actions.empty()) return {};
    add_kernels(capture, actions);
    const auto ms = [&](std::int64_t ns) { return static_cast<double>(ns - zero_ns) / core::kNsPerMs; };
    PipelineStep& times = steps.emplace_back();
    for (const HostAction& action : actions) {
      const bool is_on_device = action.device_end_ns > 0;
      times.push_back({.begin_ms = ms(is_on_device ? action.device_begin_ns : action.begin_ns),
                       .end_ms = ms(is_on_device ? action.device_end_ns : action.end_ns)});
    }
  }
  return steps;
}

}  // namespace trainctl::profiler
