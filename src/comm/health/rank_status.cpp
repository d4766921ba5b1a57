#include "comm/health/rank_status.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/json.h"
#include "core/text.h"

namespace trainctl::comm {
namespace {

const std::string kIsGone = "is gone (killed?)";

/// Whether the failure is a timeout. If one collective with a rank times out, Gloo fails the others with that rank too.
bool has_timed_out(const Evidence& evidence) {
  const auto mentions = [](const std::string& text) {
    return text.find("imed out") != std::string::npos || text.find("timeout caused") != std::string::npos;
  };
  return mentions(evidence.message) || (evidence.failed_collective && mentions(evidence.failed_collective->error));
}

/// Describes the rank's last collective: "its last was all_reduce #152 of all ranks (4.0 MiB), begun 31 s before …".
std::string last_place(const RankStatus& standing, const std::string& group) {
  const auto place = standing.places.find(group);
  if (place == standing.places.end()) return "no collective in " + group + " by its last heartbeat";
  return std::string(place->second.is_done ? "its last was " : "it was in ") + place->second.collective + ", begun " +
         core::format_duration(place->second.age_s) + " before its last sign of life";
}

Failure failure_of(const RankStatus& standing, std::string message) {
  return {.rank = standing.rank,
          .host = standing.host,
          .step = standing.step,
          .message = std::move(message),
          .is_diagnosis = true};
}

/// Returns the failure of `ranks`, which are not empty.
Failure failure_for(const Evidence& evidence, const std::vector<std::int64_t>& ranks, const std::string& what) {
  std::vector<std::string> names;
  for (const std::int64_t rank : ranks) names.push_back(name_of(evidence.standings[static_cast<std::size_t>(rank)]));
  const RankStatus& first = evidence.standings[static_cast<std::size_t>(ranks.front())];
  return failure_of(first, core::list_words(names) + (names.size() == 1 ? " " : ", each ") + what);
}

std::string group_of_failure(const Evidence& evidence) {
  return evidence.failed_collective ? evidence.failed_collective->group : "all ranks";
}

/// Names the last step of the lost rank. Its last heartbeat may be older than the collectives that it completed with
/// the others.
std::string since_step(const Evidence& evidence, const RankStatus& lost) {
  const std::int64_t failed_at = evidence.failed_collective ? evidence.failed_collective->step : 0;
  return " since step " + std::to_string(std::max(lost.step, failed_at));
}

Failure judge_ended(const Evidence& evidence) {
  const RankStatus& first = evidence.standings[static_cast<std::size_t>(evidence.ended.front())];
  return failure_for(evidence, evidence.ended, kIsGone + since_step(evidence, first));
}

Failure judge_silent(const Evidence& evidence) {
  const RankStatus& first = evidence.standings[static_cast<std::size_t>(evidence.silent.front())];
  const std::string since = since_step(evidence, first);
  if (!has_timed_out(evidence)) return failure_for(evidence, evidence.silent, kIsGone + since);
  return failure_for(evidence, evidence.silent,
                     "hangs: no sign of life" + since + "; " + last_place(first, group_of_failure(evidence)));
}

/// Returns the ended ranks of rank 0's node. Ranks elsewhere may have ended because they lost the store.
std::vector<std::int64_t> ended_with_store(const Evidence& evidence) {
  std::vector<std::int64_t> ranks;
  const std::int64_t node = evidence.standings.front().node_rank;
  for (const std::int64_t rank : evidence.ended)
    if (evidence.standings[static_cast<std::size_t>(rank)].node_rank == node) ranks.push_back(rank);
  return ranks;
}

/// Names the cause if the store is lost. The process that kept it has ended: rank 0, or the launcher on its node.
Failure judge_without_store(const Evidence& evidence) {
  const RankStatus& keeper = evidence.standings.front();
  const std::string since = since_step(evidence, keeper);
  if (evidence.store_is_served) {
    if (const std::vector<std::int64_t> gone = ended_with_store(evidence); !gone.empty())
      return failure_for(evidence, gone, kIsGone + since);
    const RankStatus& self = evidence.standings[static_cast<std::size_t>(evidence.rank)];
    return failure_of(self, evidence.message + " (and the store that " + evidence.launcher + " keeps where " +
                                name_of(keeper) + " runs is out of reach since step " + std::to_string(self.step) +
                                ": has that node gone?)");
  }
  if (evidence.store == Evidence::Store::lost) return failure_of(keeper, name_of(keeper) + " " + kIsGone + since);
  return failure_of(keeper, name_of(keeper) + " hangs: the store that it keeps doesn't answer" + since + "; " +
                                last_place(keeper, group_of_failure(evidence)));
}

/// Finds a rank that is absent from the collective that timed out, or is in another collective.
std::optional<Failure> judge_absent(const Evidence& evidence) {
  const CollectiveEvent& event = *evidence.failed_collective;
  const std::string what = describe(event) + " at step " + std::to_string(event.step);
  for (const RankStatus& other : evidence.standings) {
    const auto place = other.places.find(event.group);
    const bool is_member = place != other.places.end() || event.group == "all ranks";
    if (other.rank == evidence.rank || !is_member) continue;
    const std::int64_t sequence = place == other.places.end() ? 0 : place->second.sequence;
    if (sequence < event.sequence)
      return failure_of(other, name_of(other) + " never came to " + what + ": " +
                                   (other.doing.empty() ? "" : "it was " + other.doing + "; ") +
                                   last_place(other, event.group));
    if (sequence == event.sequence && place->second.collective != describe(event))
      return failure_of(other, name_of(other) + " is in " + place->second.collective + " where rank " +
                                   std::to_string(evidence.rank) + " is in " + what + ": the ranks do different work");
  }
  return std::nullopt;
}

nlohmann::json to_array(const ProcessId& process) {
  return {process.machine, process.number, process.start_time};
}

ProcessId process_of(const nlohmann::json& array) {
  return {.machine = array.at(0), .number = array.at(1), .start_time = array.at(2)};
}

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

/// Returns the ranks that hold the others up. Stopped ranks come first. The next are ranks behind a collective in which
/// others wait, and then ranks whose activity is not the most frequent one. A stopped rank may have begun a collective
/// that others can't reach without it.
std::vector<const RankStatus*> ranks_that_differ(const std::vector<RankStatus>& standings) {
  const auto those = [&](const auto& is_one) {
    std::vector<const RankStatus*> found;
    for (const RankStatus& standing : standings)
      if (is_one(standing)) found.push_back(&standing);
    return found;
  };
  auto stopped = those([](const RankStatus& standing) { return is_stopped(standing.process); });
  if (!stopped.empty()) return stopped;
  std::int64_t furthest = 0;
  for (const RankStatus& standing : standings) furthest = std::max(furthest, sequence_of(standing));
  const auto is_behind = [&](const RankStatus& standing) { return sequence_of(standing) < furthest; };
  const bool some_wait = std::ranges::any_of(
      standings, [&](const RankStatus& standing) { return !is_behind(standing) && waits_in_collective(standing); });
  auto behind = those(is_behind);
  return !behind.empty() && some_wait ? behind : minority(standings);
}

/// Describes where the rank is, seen from the collective in which the `waiting` wait.
std::string whereabouts(const RankStatus& standing, const std::vector<const RankStatus*>& waiting) {
  const RankStatus::Place& theirs = waiting.front()->places.at(kAll);
  const std::int64_t sequence = sequence_of(standing);
  const char* where = ", and has not come to ";
  if (sequence == theirs.sequence && waits_in_collective(standing)) where = ", in ";
  if (sequence > theirs.sequence || (sequence == theirs.sequence && !waits_in_collective(standing)))
    where = ", and is through with ";
  return where + theirs.collective + ", where " + names_of(waiting) + (waiting.size() == 1 ? " waits" : " wait");
}

}  // namespace

std::string to_json(const RankStatus& standing) {
  nlohmann::json places = nlohmann::json::object();
  for (const auto& [group, place] : standing.places)
    places[group] = {place.sequence, place.collective, place.is_done, place.age_s};
  return nlohmann::json{{"rank", standing.rank},
                        {"host", standing.host},
                        {"node_rank", standing.node_rank},
                        {"local_rank", standing.local_rank},
                        {"process", to_array(standing.process)},
                        {"launcher", to_array(standing.launcher)},
                        {"beat", standing.beat},
                        {"step", standing.step},
                        {"status", static_cast<int>(standing.status)},
                        {"knows_failure", standing.knows_failure},
                        {"doing", standing.doing},
                        {"places", places}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RankStatus standing_from_json(const std::string& text) {
  const auto json = core::parse_json(text, "a rank's status");
  RankStatus standing{.rank = json.at("rank"),
                      .host = json.at("host"),
                      .node_rank = json.at("node_rank"),
                      .local_rank = json.at("local_rank"),
                      .process = process_of(json.at("process")),
                      .launcher = process_of(json.at("launcher")),
                      .beat = json.at("beat"),
                      .step = json.at("step"),
                      .status = static_cast<RankStatus::Status>(json.at("status").get<int>()),
                      .knows_failure = json.at("knows_failure"),
                      .doing = json.at("doing")};
  for (const auto& [group, place] : json.at("places").items())
    standing.places[group] = {
        .sequence = place.at(0), .collective = place.at(1), .is_done = place.at(2), .age_s = place.at(3)};
  return standing;
}

std::string to_json(const Failure& failure) {
  return nlohmann::json{{"rank", failure.rank},
                        {"host", failure.host},
                        {"step", failure.step},
                        {"message", failure.message},
                        {"is_diagnosis", failure.is_diagnosis}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Failure failure_from_json(const std::string& text) {
  const auto json = core::parse_json(text, "a rank's failure");
  return {.rank = json.at("rank"),
          .host = json.at("host"),
          .step = json.at("step"),
          .message = json.at("message"),
          .is_diagnosis = json.at("is_diagnosis")};
}

std::map<std::string, RankStatus::Place> places_of(const FlightRecorder& journal) {
  std::map<std::string, RankStatus::Place> places;
  const auto now = std::chrono::steady_clock::now();
  for (const auto& [group, event] : journal.last())
    places[group] = {.sequence = event.sequence,
                     .collective = describe(event),
                     .is_done = event.state == CollectiveEvent::State::done,
                     .age_s = std::chrono::duration<double>(now - event.begin).count()};
  return places;
}

std::vector<std::int64_t> exited_ranks(const std::vector<RankStatus>& standings) {
  std::vector<std::int64_t> ranks;
  for (const RankStatus& standing : standings)
    if (standing.status == RankStatus::Status::running && !standing.knows_failure && has_ended(standing.process))
      ranks.push_back(standing.rank);
  return ranks;
}

std::string name_of(const RankStatus& standing) {
  return "rank " + std::to_string(standing.rank) + " on " + standing.host;
}

Failure judge(const Evidence& evidence) {
  const RankStatus& self = evidence.standings[static_cast<std::size_t>(evidence.rank)];
  if (evidence.first) return *evidence.first;
  if (evidence.store != Evidence::Store::reachable) return judge_without_store(evidence);
  if (!evidence.ended.empty()) return judge_ended(evidence);
  if (!evidence.silent.empty()) return judge_silent(evidence);
  for (const RankStatus& other : evidence.standings)
    if (other.status == RankStatus::Status::left && evidence.failed_collective)
      return failure_of(other, name_of(other) + " ended its run at step " + std::to_string(other.step) +
                                   ", while rank " + std::to_string(evidence.rank) + " waited for it in " +
                                   describe(*evidence.failed_collective));
  if (evidence.failed_collective && has_timed_out(evidence))
    if (std::optional<Failure> absent = judge_absent(evidence)) return *absent;
  if (!evidence.failed_collective) return failure_of(self, evidence.message);
  return failure_of(self, name_of(self) + ": " + evidence.message + " (all ranks are alive, and have come to " +
                              describe(*evidence.failed_collective) + ": has the network between them failed?)");
}

bool all_have_reported(const std::vector<RankStatus>& standings) {
  return std::ranges::all_of(standings, [](const RankStatus& standing) {
    return standing.status != RankStatus::Status::running || !standing.doing.empty() || is_stopped(standing.process);
  });
}

std::string describe_stall(const std::vector<RankStatus>& standings) {
  if (standings.size() < 2) return "";
  const std::vector<const RankStatus*> culprits = ranks_that_differ(standings);
  std::vector<const RankStatus*> waiting;
  for (const RankStatus& standing : standings)
    if (std::ranges::find(culprits, &standing) == culprits.end() && waits_in_collective(standing))
      waiting.push_back(&standing);
  if (culprits.empty())
    return "no rank differs: all are " + activity(standings.front()) +
           (waiting.empty() ? "" : ", in " + waiting.front()->places.at(kAll).collective);
  const RankStatus& first = *culprits.front();
  return names_of(culprits) + (culprits.size() == 1 ? " differs: it is " : " differ: the first is ") + activity(first) +
         (waiting.empty() ? "" : whereabouts(first, waiting));
}

}  // namespace trainctl::comm
