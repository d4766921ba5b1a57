// Finds the ranks that differ from the rest while no rank makes a step.
#include <algorithm>

#include "comm/health/rank_status.h"
#include "core/text.h"

namespace trainctl::comm {
namespace {

const std::string kAll = "all ranks";

std::int64_t sequence_of(const RankStatus& standing) {
  const auto place = standing.places.find(kAll);
  return place == standing.places.end() ? 0 : place->second.sequence;
}

bool waits_in_collective(const RankStatus& standing) {
  const auto place = standing.places.find(kAll);
  return place != standing.places.end() && !place->second.is_done;
}

std::string names_of(const std::vector<const RankStatus*>& standings) {
  std::vector<std::string> names;
  for (const RankStatus* standing : standings)
    names.push_back("rank " + std::to_string(standing->rank) + " on " + standing->host);
  return core::list_words(names);
}

/// Describes what the rank does. A stopped process sends no heartbeat, and its last report is out of date.
std::string activity(const RankStatus& standing) {
  if (is_stopped(standing.process))
    return "stopped (process " + std::to_string(standing.process.number) + ", by a signal or a debugger)";
  if (!standing.doing.empty()) return standing.doing;
  return standing.status == RankStatus::Status::running ? "silent on what it does" : "ended";
}

/// Removes the duration, so that reports can be compared: "in data for 31 s" -> "in data".
std::string without_time(const std::string& doing) {
  return doing.substr(0, doing.find(" for "));
}

/// Returns the ranks whose activity differs from the most frequent one.
std::vector<const RankStatus*> minority(const std::vector<RankStatus>& standings) {
  const auto count = [&](const RankStatus& like) {
    return std::count_if(standings.begin(), standings.end(), [&](const RankStatus& other) {
      return without_time(other.doing) == without_time(like.doing);
    });
  };
  const auto commonest =
      std::max_element(standings.begin(), standings.end(),
                       [&](const RankStatus& a, const RankStatus& b) { return count(a) < count(b); });
  std::vector<const RankStatus*> others;
  for (const RankStatus& standing : standings)
    if (without_time(standing.doing) != without_time(commonest->doing)) others.push_back(&standing);
  return others;
}

}  // namespace

bool all_have_reported(const std::vector<RankStatus>& standings) {
  return std::ranges::all_of(standings, [](const RankStatus& standing) {
    return standing.status != RankStatus::Status::running || !standing.doing.empty() || is_stopped(standing.process);
  });
}

std::string describe_stall(const std::vector<RankStatus>& standings) {
  if (standings.size() < 2) return "";
  std::int64_t furthest = 0;
  for (const RankStatus& standing : standings) furthest = std::max(furthest, sequence_of(standing));
  std::vector<const RankStatus*> waiting;
  std::vector<const RankStatus*> absent;
  for (const RankStatus& standing : standings) {
    if (sequence_of(standing) < furthest)
      absent.push_back(&standing);
    else if (waits_in_collective(standing))
      waiting.push_back(&standing);
  }
  if (!absent.empty() && !waiting.empty()) {
    std::string text = names_of(absent) + (absent.size() == 1 ? " differs" : " differ") + ": ";
    text += absent.size() == 1 ? "it is " : "the first is ";
    text += activity(*absent.front()) + ", and has not come to " + waiting.front()->places.at(kAll).collective +
            ", where " + names_of(waiting) + (waiting.size() == 1 ? " waits" : " wait");
    return text;
  }
  const std::vector<const RankStatus*> others = minority(standings);
  if (others.empty())
    return "no rank differs: all are " + activity(standings.front()) +
           (waiting.empty() ? "" : ", in " + waiting.front()->places.at(kAll).collective);
  return names_of(others) + (others.size() == 1 ? " differs: it is " : " differ: the first is ") +
         activity(*others.front());
}

}  // namespace trainctl::comm
