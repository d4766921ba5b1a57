#include <algorithm>

#include "core/median.h"
#include "profiler/findings/rules.h"

namespace trainctl::profiler {

std::optional<Finding> straggler(const ProfileSummary& summary) {
  if (!summary.distributed || !summary.distributed->straggler) return {};
  const auto& [rank, text] = *summary.distributed->straggler;
  std::vector<double> others;
  const RankSummary* slow = nullptr;
  for (const RankSummary& one : summary.distributed->ranks)
    if (one.rank == rank) slow = &one;
  if (slow == nullptr) return {};
  for (const RankSummary& one : summary.distributed->ranks)
    if (one.rank != rank && one.stage == slow->stage) others.push_back(one.own_ms);
  if (others.empty()) return {};
  const double gain = std::max(0.0, slow->own_ms - core::median(std::move(others)));
  const bool waits = slow->data_wait_ms > gain / 2;
  std::vector<Change> changes;
  if (waits && summary.run.choices.num_workers) changes.push_back({"dataset.num_workers", "auto"});
  return Finding{.rule = "straggler",
                 .what = "Rank " + std::to_string(rank) + " holds the others up",
                 .evidence = text,
                 .changes = std::move(changes),
                 .gain_ms = gain,
                 .gain = time_gain(summary, gain) + (waits ? "" : "; look at what else runs on that rank's machine")};
}

}  // namespace trainctl::profiler
