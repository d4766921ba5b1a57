#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/units.h"
#include "profiler/analysis/analysis.h"

namespace trainctl::profiler {

const char* name_of(Part part) {
  static constexpr std::array kNames{"data_wait", "host_to_device", "forward", "backward",
                                     "optimizer", "communication",  "other"};
  return kNames[static_cast<std::size_t>(part)];
}

namespace {

constexpr std::size_t kOther = static_cast<std::size_t>(Part::other);
using Split = std::array<std::int64_t, kNumParts>;

std::optional<Part> part_of(const std::string& span) {
  static const std::map<std::string, Part> parts{{"data", Part::data_wait},      {"to_device", Part::host_to_device},
                                                 {"forward", Part::forward},     {"backward", Part::backward},
                                                 {"unscale", Part::optimizer},   {"clip", Part::optimizer},
                                                 {"optimizer", Part::optimizer}, {"ema", Part::optimizer},
                                                 {"count", Part::communication}, {"communication", Part::communication},
                                                 {"send", Part::communication},  {"receive", Part::communication}};
  const auto found = parts.find(span);
  return found == parts.end() ? std::nullopt : std::optional(found->second);
}

struct Interval {
  std::int64_t begin;
  std::int64_t end;
  std::size_t part;
};

/// Divides the training thread's time of a step by the innermost known span.
std::vector<Interval> host_intervals(const Capture& capture, std::int32_t step) {
  struct Open {
    std::int64_t end;
    std::size_t part;
  };
  const CapturedStep& whole = capture.steps[static_cast<std::size_t>(step)];
  std::vector<Interval> intervals;
  std::vector<Open> open{{whole.end_ns, kOther}};
  std::int64_t at = whole.begin_ns;
  const auto advance = [&](std::int64_t to) {
    if (to > at) intervals.push_back({at, to, open.back().part});
    at = std::max(at, to);
  };
  for (std::size_t i = static_cast<std::size_t>(whole.event) + 1; i < capture.events.size(); ++i) {
    const CapturedEvent& event = capture.events[i];
    if (event.begin_ns >= whole.end_ns && event.thread == capture.event(whole.event).thread) break;
    if (event.kind != EventKind::span || event.thread != capture.event(whole.event).thread) continue;
    const std::optional<Part> part = part_of(capture.name_of(event.name));
    if (!part) continue;
    while (open.size() > 1 && open.back().end <= event.begin_ns) {
      advance(open.back().end);
      open.pop_back();
    }
    advance(event.begin_ns);
    open.push_back({std::min(event.end_ns, whole.end_ns), static_cast<std::size_t>(*part)});
  }
  while (!open.empty()) {
    advance(open.back().end);
    open.pop_back();
  }
  return intervals;
}

/// Returns the part of a step to which a kernel belongs.
std::size_t part_of(const Capture& capture, const CapturedKernel& kernel) {
  if (kernel.work == DeviceWork::collective) return static_cast<std::size_t>(Part::communication);
  if (kernel.work == DeviceWork::copy_to_device) return static_cast<std::size_t>(Part::host_to_device);
  if (kernel.event < 0) return kOther;
  const CapturedEvent& event = capture.event(kernel.event);
  if (event.stage >= 0)
    if (const auto part = part_of(capture.name_of(event.stage))) return static_cast<std::size_t>(*part);
  return event.sequence >= 0 && event.forward_thread > 0 ? static_cast<std::size_t>(Part::backward) : kOther;
}

/// Returns the rank of a part among concurrent ones: computing before copies, copies before communication, the host
/// last.
int rank_of(std::size_t part) {
  if (part == static_cast<std::size_t>(Part::communication)) return 1;
  return part == static_cast<std::size_t>(Part::host_to_device) ? 2 : 3;
}

/// Divides a step by the work on the device. Idle time counts as the host's wait for data or ranks, else as "other".
Split device_split(const Capture& capture, const CapturedStep& step, const std::vector<Interval>& host) {
  struct Edge {
    std::int64_t ns;
    int rank;
    std::size_t part;
    int change;
  };
  std::vector<Edge> edges;
  const auto add = [&](std::int64_t begin, std::int64_t end, int rank, std::size_t part) {
    begin = std::max(begin, step.begin_ns);
    end = std::min(end, step.end_ns);
    if (begin >= end) return;
    edges.push_back({begin, rank, part, 1});
    edges.push_back({end, rank, part, -1});
  };
  for (const Interval& interval : host) {
    const bool waits = interval.part == static_cast<std::size_t>(Part::data_wait) ||
                       interval.part == static_cast<std::size_t>(Part::communication);
    add(interval.begin, interval.end, 0, waits ? interval.part : kOther);
  }
  for (const CapturedKernel& kernel : capture.kernels) {
    const std::size_t part = part_of(capture, kernel);
    add(kernel.begin_ns, kernel.end_ns, rank_of(part), part);
  }
  std::ranges::sort(edges, {}, &Edge::ns);
  Split split{};
  std::array<std::array<int, kNumParts>, 4> open{};
  std::int64_t at = step.begin_ns;
  for (const Edge& edge : edges) {
    for (int rank = 3; rank >= 0 && edge.ns > at; --rank) {
      const auto& row = open[static_cast<std::size_t>(rank)];
      const auto part = std::ranges::find_if(row, [](int count) { return count > 0; });
      if (part == row.end()) continue;
      split[static_cast<std::size_t>(part - row.begin())] += edge.ns - at;
      at = edge.ns;
    }
    at = std::max(at, edge.ns);
    open[static_cast<std::size_t>(edge.rank)][edge.part] += edge.change;
  }
  return split;
}

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  Spread spread{.median_ms = values[(values.size() - 1) / 2], .min_ms = values.front(), .max_ms = values.back()};
  for (const double value : values) spread.mean_ms += value / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean_ms) * (value - spread.mean_ms);
  spread.std_ms = std::sqrt(squares / static_cast<double>(values.size()));
  return spread;
}

/// Returns the outermost spans of the steps, in order of first appearance.
std::vector<SpanTime> spans_of(const Capture& capture) {
  std::vector<SpanTime> spans;
  std::map<std::int32_t, std::size_t> known;
  for (const CapturedEvent& event : capture.events) {
    if (event.kind != EventKind::span || event.stage != event.name || event.parent < 0) continue;
    if (!capture.name_of(capture.event(event.parent).name).starts_with(kStepSpan)) continue;
    const auto [place, is_new] = known.try_emplace(event.name, spans.size());
    if (is_new) spans.push_back({.name = capture.name_of(event.name), .ms = 0, .peak_mib = {}});
    spans[place->second].ms +=
        static_cast<double>(event.duration_ns()) / core::kNsPerMs / static_cast<double>(capture.steps.size());
  }
  return spans;
}

/// Returns the share of the steps in which operators (on a GPU: kernels) ran.
double utilisation(const Capture& capture, double steps_ns) {
  std::vector<std::pair<std::int64_t, std::int64_t>> busy;
  for (const CapturedKernel& kernel : capture.kernels) busy.emplace_back(kernel.begin_ns, kernel.end_ns);
  if (busy.empty())
    for (const CapturedEvent& event : capture.events)
      if (event.step >= 0 && event.kind == EventKind::op &&
          (event.parent < 0 || capture.event(event.parent).kind != EventKind::op))
        busy.emplace_back(event.begin_ns, event.end_ns);
  std::ranges::sort(busy);
  double total = 0;
  std::int64_t at = 0;
  for (const auto& [begin, end] : busy) {
    total += static_cast<double>(std::max<std::int64_t>(0, end - std::max(at, begin)));
    at = std::max(at, end);
  }
  return steps_ns > 0 ? std::min(1.0, total / steps_ns) : 0;
}

}  // namespace

StepSummary analyse_steps(const Capture& capture) {
  StepSummary summary;
  std::vector<double> times;
  std::array<std::vector<double>, kNumParts> parts;
  double steps_ns = 0;
  for (std::size_t i = 0; i < capture.steps.size(); ++i) {
    const CapturedStep& step = capture.steps[i];
    const std::vector<Interval> host = host_intervals(capture, static_cast<std::int32_t>(i));
    Split split{};
    if (capture.kernels.empty())
      for (const Interval& interval : host) split[interval.part] += interval.end - interval.begin;
    else
      split = device_split(capture, step, host);
    StepTime time{.number = step.number, .ms = static_cast<double>(step.end_ns - step.begin_ns) / core::kNsPerMs};
    for (std::size_t part = 0; part < kNumParts; ++part) {
      time.split_ms[part] = static_cast<double>(split[part]) / core::kNsPerMs;
      parts[part].push_back(time.split_ms[part]);
    }
    times.push_back(time.ms);
    steps_ns += static_cast<double>(step.end_ns - step.begin_ns);
    summary.each.push_back(time);
  }
  summary.time = spread_of(times);
  for (std::size_t part = 0; part < kNumParts; ++part) summary.split[part] = spread_of(parts[part]);
  summary.spans = spans_of(capture);
  summary.device_utilization = utilisation(capture, steps_ns);
  return summary;
}

}  // namespace trainctl::profiler
