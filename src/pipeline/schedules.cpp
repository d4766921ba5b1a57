#include <algorithm>

#include "core/error.h"
#include "pipeline/schedule.h"

namespace trainctl::pipeline {
namespace {

using Actions = std::vector<Action>;

void add(Actions& actions, ActionKind kind, std::int64_t stage, std::int64_t micro_batch) {
  actions.push_back({.kind = kind, .stage = stage, .micro_batch = micro_batch});
}

/// Counts the micro-batches of each kind of action at the two stages of a rank.
class VRank {
 public:
  VRank(std::int64_t rank, std::int64_t num_ranks) : stages_{rank, 2 * num_ranks - 1 - rank} {}

  /// `chunk`: 0 on the way down the V, 1 on the way up.
  void forward(std::size_t chunk) { add(actions, ActionKind::forward, stages_[chunk], forwards[chunk]++); }
  void input(std::size_t chunk) { add(actions, ActionKind::backward_input, stages_[chunk], inputs[chunk]++); }
  void weight(std::size_t chunk) { add(actions, ActionKind::backward_weight, stages_[chunk], weights[chunk]++); }

  Actions actions;
  std::int64_t forwards[2] = {0, 0};
  std::int64_t inputs[2] = {0, 0};
  std::int64_t weights[2] = {0, 0};

 private:
  std::int64_t stages_[2];
};

std::int64_t num_rounds(std::int64_t num_ranks, std::int64_t num_micro_batches) {
  return std::max<std::int64_t>(1, num_micro_batches / num_ranks);
}

}  // namespace

Schedule gpipe(std::int64_t num_ranks, std::int64_t num_micro_batches) {
  Schedule schedule{.ranks = {}, .num_stages = num_ranks, .num_micro_batches = num_micro_batches};
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    Actions& actions = schedule.ranks.emplace_back();
    for (const ActionKind kind : {ActionKind::forward, ActionKind::backward})
      for (std::int64_t i = 0; i < num_micro_batches; ++i) add(actions, kind, rank, i);
  }
  return schedule;
}

Schedule one_forward_one_backward(std::int64_t num_ranks, std::int64_t num_micro_batches) {
  return interleaved(num_ranks, /*stages_per_rank=*/1, num_micro_batches);
}

bool has_equal_rounds(std::int64_t num_ranks, std::int64_t num_micro_batches) {
  return num_micro_batches % num_rounds(num_ranks, num_micro_batches) == 0;
}

Schedule interleaved(std::int64_t num_ranks, std::int64_t stages_per_rank, std::int64_t num_micro_batches) {
  Schedule schedule{.ranks = {}, .num_stages = num_ranks * stages_per_rank, .num_micro_batches = num_micro_batches};
  const std::int64_t rounds = num_rounds(num_ranks, num_micro_batches);
  if (stages_per_rank > 1 && !has_equal_rounds(num_ranks, num_micro_batches))
    throw core::Error("an interleaved pipeline of " + std::to_string(num_ranks) + " ranks can't deal " +
                      std::to_string(num_micro_batches) + " micro-batches into " + std::to_string(rounds) +
                      " equal rounds")
        .hint("choose a multiple of " + std::to_string(num_ranks) + " for accumulation.steps");
  const std::int64_t per_round = stages_per_rank == 1 ? num_micro_batches : num_micro_batches / rounds;
  const std::int64_t total = num_micro_batches * stages_per_rank;
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    const auto at = [&](ActionKind kind, std::int64_t number) {
      const std::int64_t turn = number / per_round % stages_per_rank;
      const std::int64_t chunk = kind == ActionKind::forward ? turn : stages_per_rank - 1 - turn;
      const std::int64_t round = number / (per_round * stages_per_rank);
      return Action{
          .kind = kind, .stage = chunk * num_ranks + rank, .micro_batch = round * per_round + number % per_round};
    };
    const std::int64_t ahead = num_ranks - 1 - rank;
    const std::int64_t warm_up =
        std::min(total, stages_per_rank == 1 ? ahead : (stages_per_rank - 1) * per_round + 2 * ahead);
    Actions& actions = schedule.ranks.emplace_back();
    for (std::int64_t i = 0; i < warm_up; ++i) actions.push_back(at(ActionKind::forward, i));
    for (std::int64_t i = 0; i < total; ++i) {
      if (warm_up + i < total) actions.push_back(at(ActionKind::forward, warm_up + i));
      actions.push_back(at(ActionKind::backward, i));
    }
  }
  return schedule;
}

Schedule zero_bubble_v(std::int64_t num_ranks, std::int64_t num_micro_batches) {
  Schedule schedule{.ranks = {}, .num_stages = 2 * num_ranks, .num_micro_batches = num_micro_batches};
  // The pattern needs this many micro-batches. Those that the step doesn't have are left out at the end.
  const std::int64_t filling = std::max(2 * num_ranks - 1, num_micro_batches);
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    VRank v(rank, num_ranks);
    for (std::int64_t i = 0; i < 2 * (num_ranks - rank) - 1; ++i) v.forward(0);
    for (std::int64_t i = 0; i < rank; ++i) {
      v.forward(1);
      v.forward(0);
    }
    for (std::int64_t i = 0; i < num_ranks - rank; ++i) {
      v.forward(1);
      v.input(1);
      v.weight(1);
    }
    while (v.forwards[1] < v.forwards[0] || v.forwards[0] < filling) {
      if (v.forwards[0] < filling) v.forward(0);
      v.input(0);
      v.weight(0);
      v.forward(1);
      v.input(1);
      v.weight(1);
    }
    for (std::int64_t i = 0; i < rank; ++i) {
      v.input(0);
      v.input(1);
    }
    for (std::int64_t i = 0; i < num_ranks - rank; ++i) {
      v.input(0);
      v.weight(0);
    }
    while (v.weights[1] < v.inputs[1]) v.weight(1);
    while (v.weights[0] < v.inputs[0]) v.weight(0);
    std::erase_if(v.actions, [&](const Action& action) { return action.micro_batch >= num_micro_batches; });
    schedule.ranks.push_back(std::move(v.actions));
  }
  return schedule;
}

}  // namespace trainctl::pipeline
