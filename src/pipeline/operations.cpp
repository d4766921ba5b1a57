#include "pipeline/operations.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace trainctl::pipeline {
namespace {

using Kind = Operation::Kind;

/// The stage that takes an action's result; none: nobody does.
std::optional<std::int64_t> taker_of(const Action& action, std::int64_t num_stages) {
  if (action.kind == ActionKind::backward_weight) return std::nullopt;
  const std::int64_t stage = action.kind == ActionKind::forward ? action.stage + 1 : action.stage - 1;
  if (stage < 0 || stage >= num_stages) return std::nullopt;
  return stage;
}

/// Says of each rank that hasn't ended what it is at.
[[noreturn]] void refuse_deadlock(const std::vector<std::string>& places) {
  throw core::Error("the schedule never ends: " + core::list_words(places))
      .hint("a rank's list must not ask for a result before the actions that lead to it");
}

}  // namespace

std::optional<std::int64_t> source_stage(const Action& action, std::int64_t num_stages) {
  if (action.kind == ActionKind::forward) return action.stage == 0 ? std::nullopt : std::optional(action.stage - 1);
  const bool takes = action.kind != ActionKind::backward_weight && action.stage + 1 < num_stages;
  return takes ? std::optional(action.stage + 1) : std::nullopt;
}

std::optional<Action> source_of(const Action& action, std::int64_t num_stages, const std::set<Action>& done) {
  const std::optional<std::int64_t> stage = source_stage(action, num_stages);
  if (!stage) return std::nullopt;
  Action source = action;
  source.stage = *stage;
  if (action.kind == ActionKind::forward) return source;
  // The stage after may make it in one piece or in two.
  source.kind = ActionKind::backward_input;
  if (!done.contains(source)) source.kind = ActionKind::backward;
  return source;
}

std::vector<std::vector<Operation>> operations_of(const Schedule& schedule) {
  const std::vector<std::int64_t> rank_of = schedule.rank_of_stages();
  std::vector<std::vector<Operation>> ranks(schedule.ranks.size());
  std::vector<std::size_t> next(schedule.ranks.size(), 0);
  std::set<Action> done;
  for (bool any = true; any;) {
    any = false;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (next[rank] == schedule.ranks[rank].size()) continue;
      const Action& action = schedule.ranks[rank][next[rank]];
      const std::optional<Action> source = source_of(action, schedule.num_stages, done);
      if (source && !done.contains(*source)) continue;
      ranks[rank].push_back({.kind = Kind::compute, .action = action});
      done.insert(action);
      ++next[rank];
      any = true;
      const std::optional<std::int64_t> taker = taker_of(action, schedule.num_stages);
      if (!taker) continue;
      const std::int64_t peer = rank_of[static_cast<std::size_t>(*taker)];
      if (peer == static_cast<std::int64_t>(rank)) continue;
      ranks[rank].push_back({.kind = Kind::send, .action = action, .peer = peer});
      ranks[static_cast<std::size_t>(peer)].push_back(
          {.kind = Kind::receive, .action = action, .peer = static_cast<std::int64_t>(rank)});
    }
  }
  std::vector<std::string> places;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (next[rank] == schedule.ranks[rank].size()) continue;
    const Action& action = schedule.ranks[rank][next[rank]];
    const Action source = source_of(action, schedule.num_stages, done).value_or(action);
    places.push_back("rank " + std::to_string(rank) + " waits at " + text_of(action) + " for " + text_of(source) +
                     " of rank " + std::to_string(rank_of[static_cast<std::size_t>(source.stage)]));
  }
  if (!places.empty()) refuse_deadlock(places);
  return ranks;
}

void check_order(const std::vector<std::vector<Operation>>& ranks) {
  std::vector<std::size_t> next(ranks.size(), 0);
  const auto at = [&](std::size_t rank) -> const Operation* {
    return next[rank] < ranks[rank].size() ? &ranks[rank][next[rank]] : nullptr;
  };
  const auto meets = [&](std::size_t rank, const Operation& operation) {
    const auto peer = static_cast<std::size_t>(operation.peer);
    const Operation* other = peer < ranks.size() ? at(peer) : nullptr;
    return other != nullptr && other->kind != Kind::compute && other->kind != operation.kind &&
           other->peer == static_cast<std::int64_t>(rank) && other->action == operation.action;
  };
  for (bool any = true; any;) {
    any = false;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const Operation* operation = at(rank);
      if (operation == nullptr) continue;
      if (operation->kind != Kind::compute) {
        if (!meets(rank, *operation)) continue;
        ++next[static_cast<std::size_t>(operation->peer)];
      }
      ++next[rank];
      any = true;
    }
  }
  std::vector<std::string> places;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (const Operation* operation = at(rank); operation != nullptr)
      places.push_back("rank " + std::to_string(rank) +
                       (operation->kind == Kind::send ? " waits to send " : " waits to receive ") +
                       text_of(operation->action) + (operation->kind == Kind::send ? " to rank " : " from rank ") +
                       std::to_string(operation->peer));
  if (!places.empty()) refuse_deadlock(places);
}

std::int64_t peak_live(const std::vector<Action>& actions) {
  std::int64_t live = 0;
  std::int64_t most = 0;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::forward) most = std::max(most, ++live);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight) --live;
  }
  return most;
}

}  // namespace trainctl::pipeline
