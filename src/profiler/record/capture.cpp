#include "profiler/record/capture.h"

#include <algorithm>

namespace trainctl::profiler {

std::int32_t Capture::intern(const std::string& name) {
  const auto [place, is_new] = index_.try_emplace(name, static_cast<std::int32_t>(names.size()));
  if (is_new) names.push_back(name);
  return place->second;
}

std::int32_t Capture::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? -1 : found->second;
}

namespace {

/// Returns the step that is under way at a time, or -1.
std::int32_t step_at(const Capture& capture, std::int64_t ns) {
  const auto after = std::upper_bound(capture.steps.begin(), capture.steps.end(), ns,
                                      [](std::int64_t time, const CapturedStep& step) { return time < step.begin_ns; });
  if (after == capture.steps.begin()) return -1;
  const auto step = std::prev(after);
  return ns < step->end_ns ? static_cast<std::int32_t>(step - capture.steps.begin()) : -1;
}

}  // namespace

void complete_nesting(Capture& capture, std::size_t first) {
  for (std::size_t i = first; i < capture.events.size(); ++i) {
    CapturedEvent& event = capture.events[i];
    event.self_ns = event.duration_ns();
    event.step = step_at(capture, event.begin_ns);
    if (event.kind == EventKind::module) event.module = event.name;
    if (event.parent < 0) continue;
    CapturedEvent& parent = capture.events[static_cast<std::size_t>(event.parent)];
    parent.self_ns = std::max<std::int64_t>(0, parent.self_ns - event.duration_ns());
    const bool is_in_step = capture.name_of(parent.name).starts_with(kStepSpan);
    event.stage = parent.stage;
    if (is_in_step && event.kind == EventKind::span) event.stage = event.name;
    if (event.module < 0) event.module = parent.module;
  }
}

}  // namespace trainctl::profiler
