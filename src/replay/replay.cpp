#include "replay/replay.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.h"

namespace trainctl::replay {
namespace {

/// A communication with all recorded ranks that take part in it.
struct Meeting {
  std::map<std::size_t, double> starts;  // by recorded rank
  std::size_t num_expected = 1;
  std::optional<double> sent;  // when the links are free again
  std::optional<double> done;

  double all_started() const {
    double last = 0;
    for (const auto& [rank, start] : starts) last = std::max(last, start);
    return last;
  }
};

/// The members, whether it is a transfer, and its number among those.
using MeetingKey = std::tuple<std::vector<std::int64_t>, bool, std::size_t>;

/// When a rank's bytes pass, and the share of its device that this takes.
struct Passing {
  double begin = 0;
  double end = 0;
  double device_share = 0;
};

/// A rank on its way through its trace.
struct Walker {
  std::size_t next = 0;
  double now = 0;
  bool has_computed = false;  // what comes before the next event
  std::vector<Passing> passing{};
  std::vector<std::pair<double, double>> sent{};  // when its link is busy, in order
  std::vector<Meeting*> meetings;                 // of the communications that it has started
  std::map<std::pair<std::vector<std::int64_t>, bool>, std::size_t> counts{};
};

class Replay {
 public:
  Replay(const std::vector<RankTrace>& traces, const std::function<Cost(const Communication&)>& cost)
      : traces_(traces), cost_(cost), walkers_(traces.size()) {
    for (std::size_t i = 0; i < traces.size(); ++i) {
      places_[traces[i].rank] = i;
      result_.ranks.push_back({.rank = traces[i].rank});
    }
  }

  StepReplay run() {
    while (walk_all()) {
    }
    refuse_if_stuck();
    for (std::size_t i = 0; i < traces_.size(); ++i) {
      compute(i, traces_[i].compute_s_after);
      result_.ranks[i].total_s = walkers_[i].now;
      result_.step_s = std::max(result_.step_s, walkers_[i].now);
    }
    return std::move(result_);
  }

 private:
  /// Returns whether any rank got on.
  bool walk_all() {
    bool any = false;
    for (std::size_t rank = 0; rank < traces_.size(); ++rank)
      while (walkers_[rank].next < traces_[rank].events.size() && pass(rank)) any = true;
    return any;
  }

  /// Returns whether the rank's next event is passed; false: others must come first.
  bool pass(std::size_t rank) {
    Walker& walker = walkers_[rank];
    const Event& event = traces_[rank].events[walker.next];
    if (!std::exchange(walker.has_computed, true)) compute(rank, event.compute_s);
    const Communication& what = traces_[rank].communications[event.communication];
    if (!event.waits)
      start(rank, what);
    else if (!finish(rank, what, *walker.meetings.at(event.communication)))
      return false;
    walker.has_computed = false;
    ++walker.next;
    return true;
  }

  /// Computes for so long, and longer where bytes pass meanwhile.
  void compute(std::size_t rank, double seconds) {
    Walker& walker = walkers_[rank];
    double taken = 0;
    for (const Passing& passing : walker.passing)
      taken += passing.device_share *
               std::max(0.0, std::min(passing.end, walker.now + seconds) - std::max(passing.begin, walker.now));
    walker.now += seconds + taken;
    result_.ranks[rank].compute_s += seconds + taken;
  }

  void start(std::size_t rank, const Communication& what) {
    Walker& walker = walkers_[rank];
    const std::size_t number = walker.counts[{what.members, what.is_transfer()}]++;
    Meeting& meeting = meetings_[{what.members, what.is_transfer(), number}];
    meeting.num_expected = 0;
    for (const std::int64_t member : what.members) meeting.num_expected += places_.contains(member) ? 1 : 0;
    meeting.starts[rank] = walker.now;
    walker.meetings.push_back(&meeting);
    if (meeting.starts.size() == meeting.num_expected) begin(what, meeting);
  }

  void begin(const Communication& what, Meeting& meeting) {
    const Cost cost = cost_(what);
    const std::vector<std::size_t> senders = senders_of(what, meeting);
    double begin = std::max(meeting.all_started(), announced(what, meeting));
    for (const std::size_t rank : senders)
      if (!walkers_[rank].sent.empty()) begin = std::max(begin, walkers_[rank].sent.back().second);
    meeting.sent = begin + cost.link_s;
    meeting.done = begin + cost.link_s + cost.delay_s;
    for (const auto& [rank, start] : meeting.starts)
      walkers_[rank].passing.push_back({.begin = begin, .end = *meeting.sent, .device_share = cost.device_share});
    for (const std::size_t rank : senders) walkers_[rank].sent.emplace_back(begin, *meeting.sent);
  }

  /// When the sender knows that the receiver is ready: behind what that sends at the time, if receipts queue.
  double announced(const Communication& what, const Meeting& meeting) const {
    if (!what.is_transfer()) return 0;
    const auto receiver = places_.find(what.members.back());
    if (receiver == places_.end() || !traces_[receiver->second].receipts_queue) return 0;
    double ready = meeting.starts.at(receiver->second);
    for (const auto& [begin, end] : walkers_[receiver->second].sent)
      if (begin <= ready && ready < end) ready = end;
    return ready;
  }

  /// The recorded ranks whose links carry it.
  std::vector<std::size_t> senders_of(const Communication& what, const Meeting& meeting) const {
    std::vector<std::size_t> senders;
    if (what.is_transfer()) {
      if (const auto sender = places_.find(what.members.front()); sender != places_.end())
        senders.push_back(sender->second);
      return senders;
    }
    for (const auto& [rank, start] : meeting.starts) senders.push_back(rank);
    return senders;
  }

  bool finish(std::size_t rank, const Communication& what, const Meeting& meeting) {
    Walker& walker = walkers_[rank];
    if (!meeting.done) return false;
    RankTime& time = result_.ranks[rank];
    const double end = what.kind == Collective::send ? *meeting.sent : *meeting.done;
    if (end <= walker.now) return true;
    const double all_there = std::clamp(meeting.all_started(), walker.now, end);
    time.bubble_s += all_there - walker.now;
    time.exposed_s[what.axes] += end - all_there;
    walker.now = end;
    return true;
  }

  void refuse_if_stuck() const {
    std::string text;
    for (std::size_t i = 0; i < traces_.size(); ++i) {
      const RankTrace& trace = traces_[i];
      if (walkers_[i].next == trace.events.size()) continue;
      const Communication& what = trace.communications[trace.events[walkers_[i].next].communication];
      text += (text.empty() ? "rank " : ", rank ") + std::to_string(trace.rank) + " at one over " + what.axes;
    }
    if (!text.empty()) throw core::Error("the recorded ranks wait for each other: " + text);
  }

  const std::vector<RankTrace>& traces_;
  const std::function<Cost(const Communication&)>& cost_;
  std::vector<Walker> walkers_;
  std::map<std::int64_t, std::size_t> places_;
  std::map<MeetingKey, Meeting> meetings_;
  StepReplay result_;
};

}  // namespace

double RankTime::all_exposed_s() const {
  return std::accumulate(exposed_s.begin(), exposed_s.end(), 0.0,
                         [](double sum, const auto& one) { return sum + one.second; });
}

StepReplay replay(const std::vector<RankTrace>& traces, const std::function<Cost(const Communication&)>& cost) {
  return Replay(traces, cost).run();
}

}  // namespace trainctl::replay
