#include "pipeline/timeline.h"

#include <algorithm>
#include <map>
#include <set>

#include "pipeline/operations.h"

namespace trainctl::pipeline {
namespace {

/// When each action ended. Backward passes in one piece and those of inputs share a place.
class EndTimes {
 public:
  explicit EndTimes(const Schedule& schedule)
      : num_stages_(schedule.num_stages),
        num_micro_batches_(schedule.num_micro_batches),
        ends_(static_cast<std::size_t>(3 * num_stages_ * num_micro_batches_), kNever) {}

  double& at(const Action& action) { return ends_[index(action)]; }

  /// Returns when the result that an action takes is on its rank; 0 if it takes none. None: nobody has made it yet.
  std::optional<double> source_end(const Action& action, const std::vector<std::int64_t>& rank_of,
                                   double transfer) const {
    const std::optional<std::int64_t> stage = source_stage(action, num_stages_);
    if (!stage) return 0;
    Action source = action;
    source.stage = *stage;
    const double end = ends_[index(source)];
    if (end == kNever) return std::nullopt;
    const auto rank_at = [&](std::int64_t number) { return rank_of[static_cast<std::size_t>(number)]; };
    return end + (rank_at(source.stage) != rank_at(action.stage) ? transfer : 0);
  }

 private:
  static constexpr double kNever = -1;

  std::size_t index(const Action& action) const {
    const std::int64_t kind = action.kind == ActionKind::forward           ? 0
                              : action.kind == ActionKind::backward_weight ? 2
                                                                           : 1;
    return static_cast<std::size_t>((kind * num_stages_ + action.stage) * num_micro_batches_ + action.micro_batch);
  }

  std::int64_t num_stages_;
  std::int64_t num_micro_batches_;
  std::vector<double> ends_;
};

}  // namespace

Timeline simulate(const Schedule& schedule, const TimelineCosts& costs) {
  const std::vector<std::int64_t> rank_of = schedule.rank_of_stages();
  EndTimes ends(schedule);
  Timeline timeline{.ranks = std::vector<std::vector<TimedAction>>(schedule.ranks.size())};
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    timeline.ranks[rank].reserve(schedule.ranks[rank].size());
  bool is_complete = false;
  for (bool any = true; any && !is_complete;) {
    any = false;
    is_complete = true;
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      std::vector<TimedAction>& timed = timeline.ranks[rank];
      while (timed.size() < schedule.ranks[rank].size()) {
        const Action& action = schedule.ranks[rank][timed.size()];
        const std::optional<double> ready = ends.source_end(action, rank_of, costs.transfer);
        if (!ready) break;
        const double begin = std::max(timed.empty() ? 0 : timed.back().end, *ready);
        const double end = begin + costs.compute(action);
        timed.push_back({.action = action, .begin = begin, .end = end});
        ends.at(action) = end;
        timeline.duration = std::max(timeline.duration, end);
        any = true;
      }
      is_complete = is_complete && timed.size() == schedule.ranks[rank].size();
    }
  }
  if (!is_complete) static_cast<void>(operations_of(schedule));  // says who waits for what
  return timeline;
}

std::vector<double> transfer_times(const Schedule& schedule, const Timeline& timeline) {
  const std::vector<std::int64_t> rank_of = schedule.rank_of_stages();
  std::map<Action, double> ends;
  std::set<Action> all;
  for (const std::vector<TimedAction>& timed : timeline.ranks)
    for (const TimedAction& one : timed) {
      ends[one.action] = one.end;
      all.insert(one.action);
    }
  std::vector<double> times;
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    double sum = 0;
    double free_since = 0;
    for (const TimedAction& one : timeline.ranks[rank]) {
      const std::optional<Action> source = source_of(one.action, schedule.num_stages, all);
      if (source && rank_of[static_cast<std::size_t>(source->stage)] != static_cast<std::int64_t>(rank))
        sum += std::max(0.0, one.begin - std::max(free_since, ends.at(*source)));
      free_since = one.end;
    }
    times.push_back(sum);
  }
  return times;
}

double Timeline::bubble(std::size_t rank) const {
  double busy = 0;
  for (const TimedAction& timed : ranks[rank]) busy += timed.end - timed.begin;
  return duration == 0 ? 0 : 1 - busy / duration;
}

double Timeline::bubble() const {
  double sum = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) sum += bubble(rank);
  return ranks.empty() ? 0 : sum / static_cast<double>(ranks.size());
}

}  // namespace trainctl::pipeline
