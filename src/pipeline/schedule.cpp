#include "pipeline/schedule.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace trainctl::pipeline {
namespace {

char letter_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return 'F';
    case ActionKind::backward:
      return 'B';
    case ActionKind::backward_input:
      return 'I';
    case ActionKind::backward_weight:
      return 'W';
  }
  throw std::logic_error("unknown action");
}

std::optional<ActionKind> kind_of(char letter) {
  for (const ActionKind kind :
       {ActionKind::forward, ActionKind::backward, ActionKind::backward_input, ActionKind::backward_weight})
    if (letter_of(kind) == letter) return kind;
  return std::nullopt;
}

/// Reads a number of at most six digits, and takes it off the text.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  std::size_t length = 0;
  while (length < text.size() && length < 6 && std::isdigit(static_cast<unsigned char>(text[length])) != 0)
    number = number * 10 + (text[length++] - '0');
  if (length == 0) return std::nullopt;
  text.remove_prefix(length);
  return number;
}

std::optional<Action> parse_action(std::string_view text) {
  const std::optional<std::int64_t> stage = take_number(text);
  if (!stage || text.empty()) return std::nullopt;
  const std::optional<ActionKind> kind = kind_of(text.front());
  text.remove_prefix(1);
  const std::optional<std::int64_t> micro_batch = take_number(text);
  if (!kind || !micro_batch || !text.empty()) return std::nullopt;
  return Action{.kind = *kind, .stage = *stage, .micro_batch = *micro_batch};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

std::string rank_text(std::size_t rank) {
  return "rank " + std::to_string(rank) + " of the pipeline";
}

/// Checks the actions of one stage and micro-batch, which are in the order of their rank.
void check_actions(const std::vector<ActionKind>& kinds, std::int64_t stage, std::int64_t micro_batch,
                   const std::string& where) {
  using Kinds = std::vector<ActionKind>;
  if (kinds == Kinds{ActionKind::forward, ActionKind::backward} ||
      kinds == Kinds{ActionKind::forward, ActionKind::backward_input, ActionKind::backward_weight})
    return;
  std::string text;
  for (const ActionKind kind : kinds) text += std::string(text.empty() ? "" : ", ") + letter_of(kind);
  throw core::Error("stage " + std::to_string(stage) + " computes on micro-batch " + std::to_string(micro_batch) +
                    (text.empty() ? " never" : " in the order " + text) + where)
      .hint("each stage makes F and then B, or F, I and then W, for each micro-batch");
}

}  // namespace

std::string text_of(const Action& action) {
  return std::to_string(action.stage) + letter_of(action.kind) + std::to_string(action.micro_batch);
}

bool Schedule::splits_backward() const {
  return std::any_of(ranks.begin(), ranks.end(), [](const std::vector<Action>& actions) {
    return std::any_of(actions.begin(), actions.end(),
                       [](const Action& action) { return action.kind == ActionKind::backward_input; });
  });
}

std::vector<std::int64_t> Schedule::rank_of_stages() const {
  std::vector<std::int64_t> ranks_of(static_cast<std::size_t>(num_stages), -1);
  for (std::int64_t rank = 0; rank < num_ranks(); ++rank)
    for (const Action& action : ranks[static_cast<std::size_t>(rank)]) {
      std::int64_t& holder = ranks_of[static_cast<std::size_t>(action.stage)];
      if (holder >= 0 && holder != rank)
        throw core::Error("stage " + std::to_string(action.stage) + " is on ranks " + std::to_string(holder) + " and " +
                          std::to_string(rank) + " of the pipeline");
      holder = rank;
    }
  for (std::size_t stage = 0; stage < ranks_of.size(); ++stage)
    if (ranks_of[stage] < 0) throw core::Error("stage " + std::to_string(stage) + " is on no rank of the pipeline");
  return ranks_of;
}

Schedule read_schedule(const std::string& text, const std::string& name) {
  Schedule schedule;
  std::size_t line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (trimmed(line).empty()) continue;
    std::vector<Action>& actions = schedule.ranks.emplace_back();
    for (std::size_t at = 0; at <= line.size();) {
      const std::size_t comma = std::min(line.find(',', at), line.size());
      const std::string_view cell = trimmed(line.substr(at, comma - at));
      const std::optional<Action> action = parse_action(cell);
      if (!action && !cell.empty())
        throw core::Error(name + ":" + std::to_string(line_number) + ":" + std::to_string(at + 1) +
                          ": expected a stage, one of F, B, I and W, and a micro-batch, such as 0F3; got '" +
                          std::string(cell.substr(0, 40)) + "'");
      if (action) {
        actions.push_back(*action);
        schedule.num_stages = std::max(schedule.num_stages, action->stage + 1);
        schedule.num_micro_batches = std::max(schedule.num_micro_batches, action->micro_batch + 1);
      }
      at = comma + 1;
    }
  }
  if (schedule.num_stages == 0) throw core::Error(name + ": there is no action in it");
  try {
    check_complete(schedule);
  } catch (core::Error& error) {
    throw error.during("reading " + name);
  }
  return schedule;
}

void check_complete(const Schedule& schedule) {
  const std::vector<std::int64_t> rank_of = schedule.rank_of_stages();
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<ActionKind>> done;  // by stage and micro-batch
  for (const std::vector<Action>& actions : schedule.ranks)
    for (const Action& action : actions) done[{action.stage, action.micro_batch}].push_back(action.kind);
  for (std::int64_t stage = 0; stage < schedule.num_stages; ++stage)
    for (std::int64_t i = 0; i < schedule.num_micro_batches; ++i)
      check_actions(done[{stage, i}], stage, i,
                    ", on " + rank_text(static_cast<std::size_t>(rank_of[static_cast<std::size_t>(stage)])));
}

}  // namespace trainctl::pipeline
