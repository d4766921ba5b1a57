#include "pipeline/timeline.h"

#include <algorithm>
#include <map>
#include <set>

#include "pipeline/operations.h"

namespace trainctl::pipeline {

Timeline simulate(const Schedule& schedule, const TimelineCosts& costs) {
  const std::vector<std::int64_t> rank_of = schedule.rank_of_stages();
  static_cast<void>(operations_of(schedule));  // it comes to its end
  Timeline timeline{.ranks = std::vector<std::vector<TimedAction>>(schedule.ranks.size())};
  std::map<Action, double> ends;
  std::set<Action> done;
  for (bool any = true; any;) {
    any = false;
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      std::vector<TimedAction>& timed = timeline.ranks[rank];
      if (timed.size() == schedule.ranks[rank].size()) continue;
      const Action& action = schedule.ranks[rank][timed.size()];
      const std::optional<Action> source = source_of(action, schedule.num_stages, done);
      if (source && !done.contains(*source)) continue;
      double begin = timed.empty() ? 0 : timed.back().end;
      if (source) {
        const bool moves = rank_of[static_cast<std::size_t>(source->stage)] != static_cast<std::int64_t>(rank);
        begin = std::max(begin, ends.at(*source) + (moves ? costs.transfer : 0));
      }
      const double end = begin + costs.compute(action);
      timed.push_back({.action = action, .begin = begin, .end = end});
      ends[action] = end;
      done.insert(action);
      timeline.duration = std::max(timeline.duration, end);
      any = true;
    }
  }
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
