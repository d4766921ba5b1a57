#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "profiler/analysis/analysis.h"

namespace trainctl::profiler {
namespace {

constexpr std::size_t kMaxIntervals = 20'000;
constexpr double kNsPerUs = 1e3;

struct Piece {
  bool is_stream = false;
  std::int64_t track = 0;  // thread or stream
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t depth = 0;
  std::int32_t name = 0;
  IntervalKind kind = IntervalKind::op;
};

IntervalKind kind_of(EventKind kind) {
  switch (kind) {
    case EventKind::span:
      return IntervalKind::span;
    case EventKind::module:
      return IntervalKind::module;
    case EventKind::op:
    case EventKind::runtime:
      return IntervalKind::op;
  }
  return IntervalKind::op;
}

IntervalKind kind_of(DeviceWork work) {
  switch (work) {
    case DeviceWork::copy:
    case DeviceWork::copy_to_device:
      return IntervalKind::copy;
    case DeviceWork::collective:
      return IntervalKind::collective;
    case DeviceWork::kernel:
      return IntervalKind::kernel;
  }
  return IntervalKind::kernel;
}

std::vector<Piece> pieces_of(const Capture& capture, std::int64_t begin, std::int64_t end) {
  std::vector<Piece> pieces;
  std::vector<std::int64_t> depths(capture.events.size(), 0);
  for (std::size_t i = 0; i < capture.events.size(); ++i) {
    const CapturedEvent& event = capture.events[i];
    depths[i] = event.parent < 0 ? 0 : depths[static_cast<std::size_t>(event.parent)] + 1;
    if (event.begin_ns < begin || event.begin_ns >= end) continue;
    pieces.push_back({.is_stream = false,
                      .track = event.thread,
                      .begin_ns = event.begin_ns,
                      .end_ns = event.end_ns,
                      .depth = depths[i],
                      .name = event.name,
                      .kind = kind_of(event.kind)});
  }
  for (const CapturedKernel& kernel : capture.kernels)
    if (kernel.begin_ns >= begin && kernel.begin_ns < end)
      pieces.push_back({.is_stream = true,
                        .track = kernel.stream,
                        .begin_ns = kernel.begin_ns,
                        .end_ns = kernel.end_ns,
                        .depth = 0,
                        .name = kernel.name,
                        .kind = kind_of(kernel.work)});
  return pieces;
}

/// Drops the shortest pieces.
void keep_longest(std::vector<Piece>& pieces, Timeline& timeline) {
  if (pieces.size() <= kMaxIntervals) return;
  const auto duration = [](const Piece& piece) { return piece.end_ns - piece.begin_ns; };
  std::ranges::nth_element(pieces, pieces.begin() + kMaxIntervals, std::greater{}, duration);
  timeline.shorter_than_us = static_cast<double>(duration(pieces[kMaxIntervals])) / kNsPerUs;
  timeline.num_dropped = static_cast<std::int64_t>(pieces.size() - kMaxIntervals);
  pieces.resize(kMaxIntervals);
}

}  // namespace

Timeline analyse_timeline(const Capture& capture) {
  Timeline timeline;
  if (capture.steps.size() <= capture.last_cycle_step) return timeline;
  const std::int64_t begin = capture.steps[capture.last_cycle_step].begin_ns;
  const std::int64_t end = capture.steps.back().end_ns;
  for (std::size_t i = capture.last_cycle_step; i < capture.steps.size(); ++i) {
    const CapturedStep& step = capture.steps[i];
    timeline.steps.push_back({.number = step.number,
                              .start_us = static_cast<double>(step.begin_ns - begin) / kNsPerUs,
                              .duration_us = static_cast<double>(step.end_ns - step.begin_ns) / kNsPerUs});
  }
  std::vector<Piece> pieces = pieces_of(capture, begin, end);
  keep_longest(pieces, timeline);
  std::ranges::sort(pieces, [](const Piece& a, const Piece& b) {
    return std::tuple(a.begin_ns, a.depth, -a.end_ns) < std::tuple(b.begin_ns, b.depth, -b.end_ns);
  });
  std::map<std::int32_t, std::int64_t> names;
  std::map<std::pair<bool, std::int64_t>, std::size_t> tracks;
  for (const Piece& piece : pieces) {
    const auto [name, is_new_name] = names.try_emplace(piece.name, static_cast<std::int64_t>(timeline.names.size()));
    if (is_new_name) timeline.names.push_back(capture.name_of(piece.name));
    const auto [track, is_new_track] = tracks.try_emplace({piece.is_stream, piece.track}, timeline.tracks.size());
    if (is_new_track)
      timeline.tracks.push_back({.name = piece.is_stream ? "stream " + std::to_string(piece.track)
                                                         : capture.threads[static_cast<std::size_t>(piece.track)],
                                 .is_stream = piece.is_stream,
                                 .intervals = {}});
    timeline.tracks[track->second].intervals.push_back(
        {.start_us = static_cast<double>(piece.begin_ns - begin) / kNsPerUs,
         .duration_us = static_cast<double>(piece.end_ns - piece.begin_ns) / kNsPerUs,
         .depth = piece.depth,
         .name = name->second,
         .kind = piece.kind});
  }
  return timeline;
}

}  // namespace trainctl::profiler
