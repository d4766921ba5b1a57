#include <algorithm>

#include "profiler/findings/rules.h"

namespace trainctl::profiler {
namespace {

constexpr double kNotableMib = 64;
constexpr double kNotableShare = 0.25;  // of what is reserved
constexpr double kInPieces = 0.5;       // of the free memory, outside its largest block

}  // namespace

std::optional<Finding> fragmentation(const ProfileSummary& summary) {
  const Fragmentation::Point* worst = nullptr;
  double most = 0;
  for (const Fragmentation::Point& point : summary.memory.fragmentation.points) {
    double free = 0;
    for (const double mib : point.free_mib) free += mib;
    const double in_pieces = free - point.largest_free_mib;
    const bool matters =
        in_pieces > kNotableMib && in_pieces > kInPieces * free && in_pieces > kNotableShare * point.reserved_mib;
    // Between the steps most is free and lies between what stays; it is the fullest moment that counts.
    const double fullest = summary.memory.peak.allocated;
    if (!matters || point.allocated_mib < 0.8 * fullest || in_pieces <= most) continue;
    most = in_pieces;
    worst = &point;
  }
  if (worst == nullptr) return {};
  const bool on_cpu = summary.device.kind == "cpu";
  const RunChoices& now = summary.run.choices;
  if (on_cpu ? !now.caching_allocator : now.expandable_segments) return {};
  const Change change =
      on_cpu ? Change{"device.caching_allocator", "false"} : Change{"device.expandable_segments", "true"};
  return Finding{.rule = "fragmentation",
                 .what = "Free memory lies in pieces too small to use",
                 .evidence = "of " + mib_text(worst->reserved_mib) + " reserved, " + mib_text(worst->allocated_mib) +
                             " are in use; " + mib_text(most) +
                             " are free outside of the largest free block, which has " +
                             mib_text(worst->largest_free_mib),
                 .changes = {change},
                 .gain_mib = most,
                 .gain = "up to " + mib_text(most)};
}

}  // namespace trainctl::profiler
