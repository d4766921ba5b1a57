// Pipeline schedules as data: in which order each rank computes on which micro-batch at which stage. The executor
// (train/loop) and the simulator (timeline.h) read the same lists.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::pipeline {

/// The letters are those of torch.distributed.pipelining: F is a forward pass, B a backward pass. In its place I makes
/// the gradient of the stage's input, and W later those of its weights.
enum class ActionKind : std::uint8_t { forward, backward, backward_input, backward_weight };

struct Action {
  ActionKind kind = ActionKind::forward;
  std::int64_t stage = 0;
  std::int64_t micro_batch = 0;

  auto operator<=>(const Action&) const = default;
};

/// "1F0": stage, kind, micro-batch, as in PyTorch's schedule files.
std::string text_of(const Action& action);

struct Schedule {
  std::vector<std::vector<Action>> ranks;  // the actions of each rank, in its order
  std::int64_t num_stages = 0;
  std::int64_t num_micro_batches = 0;

  std::int64_t num_ranks() const { return static_cast<std::int64_t>(ranks.size()); }
  /// Whether any backward pass is made as I and W.
  bool splits_backward() const;
  /// The rank that holds each stage. Throws Error if a stage is on several, or on none.
  std::vector<std::int64_t> rank_of_stages() const;
};

/// All forwards, then all backwards (GPipe, https://arxiv.org/abs/1811.06965).
Schedule gpipe(std::int64_t num_ranks, std::int64_t num_micro_batches);
/// One forward, one backward in turn (PipeDream-Flush, https://arxiv.org/abs/2006.09503): as many micro-batches are
/// live on a rank as ranks are at or after it.
Schedule one_forward_one_backward(std::int64_t num_ranks, std::int64_t num_micro_batches);
/// 1F1B with several stages a rank (https://arxiv.org/abs/2104.04473), dealt in turn: stage s is on rank s % num_ranks.
/// Micro-batches go in rounds; throws Error if their number isn't a multiple of the number of rounds.
Schedule interleaved(std::int64_t num_ranks, std::int64_t stages_per_rank, std::int64_t num_micro_batches);
/// Whether interleaved() takes this number of micro-batches for several stages a rank.
bool has_equal_rounds(std::int64_t num_ranks, std::int64_t num_micro_batches);
/// Two stages a rank in the form of a V (ZBV, https://arxiv.org/abs/2401.10241): the first rank has the first and the
/// last stage. There is no bubble but for filling the pipeline, where F, I and W take equally long.
Schedule zero_bubble_v(std::int64_t num_ranks, std::int64_t num_micro_batches);

/// Reads a schedule in PyTorch's format: a line for each rank, its actions separated by commas, empty cells for
/// waiting. `name`: of the file, for errors. Throws Error with line and column.
Schedule read_schedule(const std::string& text, const std::string& name);

/// Throws Error if an action is missing, is done twice, or comes before one of its own rank that it needs.
void check_complete(const Schedule& schedule);

}  // namespace trainctl::pipeline
